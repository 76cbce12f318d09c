"""What a dump says of itself around its events: rank, base time, devices, groups; taken as far as it can be read."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from longpole.events import Device
from longpole.formats.repair import mended, without_surrogates
from longpole.formats.tally import sample

_KEYS = ("schemaVersion", "baseTimeNanoseconds", "distributedInfo", "deviceProperties", "host_name", "trace_id")
_LARGEST_RANK = 10_000_000  # no job has as many processes
_LARGEST_BASE_NS = 2**62  # in the year 2116
_MOST_DEVICES = 4_096
_LONGEST_TEXT = 1_024


@dataclass
class Frame:
    """The keys around the events as they were read, the later one of two alike, and what was odd about them."""

    values: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    is_cut: bool = False  # the outermost object has no end
    n_lost_bytes: int = 0  # of it, behind the events


def read_object(text: bytes) -> tuple[dict[str, Any], list[str], str] | None:
    """Return the object at the start of `text`, its keys that come twice and what follows; None if there is none."""
    pairs: list[tuple[str, Any]] = []

    def remember(found: list[tuple[str, Any]]) -> dict[str, Any]:
        pairs[:] = found  # the outermost object comes last
        return dict(found)

    string = text.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=remember)
    try:
        value, end = decoder.raw_decode(string)
    except (ValueError, RecursionError):
        value, end = mended(string), len(string)
        pairs = []
    if not isinstance(value, dict):
        return None
    twice = [key for key, n in Counter(key for key, _ in pairs).items() if n > 1]
    return value, twice, string[end:].strip()


def read_frame(header: bytes, trailer: bytes, *, is_list: bool, is_cut: bool, is_whole: bool) -> Frame:
    """Return what stands around the events.

    Args:
        header: The text before the key of the list of events.
        trailer: The text behind the list.
        is_list: The dump is a bare list, so that nothing belongs there.
        is_cut: The list itself has no end, so that nothing can.
        is_whole: There was no more of the trailer than that.
    """
    frame = Frame(is_cut=is_cut)
    if is_list:
        if trailer.strip():
            frame.notes.append(f"{len(trailer):,} bytes that follow the list of events are left unread.")
        return frame
    for text, place in ((header + b'"":0}', "before"), (b'{"":0' + trailer, "behind")):
        if is_cut and place == "behind":
            continue
        found = read_object(text)
        if found is None:
            frame.values |= _salvaged(text)
            if place == "behind" and is_whole:
                frame.is_cut, frame.n_lost_bytes = True, len(trailer)
            elif place == "before":
                frame.notes.append("What the dump says before its events is no JSON; single keys were still read.")
            continue
        values, twice, rest = found
        twice += [key for key in values if key and key in frame.values]
        frame.values |= values
        if twice:
            frame.notes.append(f"Keys that come twice, the last counts: {_shown(', '.join(twice))}.")
        if rest:
            frame.notes.append(f"{len(rest):,} characters that follow the dump's end are left unread.")
    frame.values.pop("", None)
    if "traceEvents" in frame.values:
        frame.notes.append("A second list of events behind the first is left unread.")
    return frame


def _salvaged(text: bytes) -> dict[str, Any]:
    """Return those of the known keys that can be read out of something that is no JSON as a whole."""
    string = text.decode("utf-8", "replace")
    decoder = json.JSONDecoder(strict=False)
    values = {}
    for key in _KEYS:
        for match in re.finditer(rf'"{key}"\s*:\s*', string):
            try:
                values[key] = decoder.raw_decode(string, match.end())[0]
                break
            except (ValueError, RecursionError):
                continue
    return values


@dataclass(frozen=True)
class Origin:
    """Who recorded a dump, when and on what, as far as it says so and makes sense."""

    schema: int | None
    base_ns: int | None
    rank: int | None
    world_size: int | None
    backend: str | None
    host: str | None
    devices: tuple[Device, ...]
    process_groups: str | None
    trace_id: str | None


def origin(frame: Frame) -> Origin:
    """Return the origin that a frame tells of; what makes no sense is left out and noted in the frame."""
    values, notes = frame.values, frame.notes
    distributed = values.get("distributedInfo")
    if isinstance(distributed, str):
        found = read_object(distributed.encode("utf-8", "replace"))
        distributed = found[0] if found else distributed
    if not isinstance(distributed, dict):
        if distributed is not None:
            notes.append(f"distributedInfo is no object: {_shown(distributed)}.")
        distributed = {}
    world_size = _whole(distributed.get("world_size"), "world_size", range(1, _LARGEST_RANK), notes)
    rank = _whole(distributed.get("rank"), "rank", range(_LARGEST_RANK), notes)
    if rank is not None and world_size is not None and rank >= world_size:
        notes.append(f"rank {rank} is not below world_size {world_size}; neither is used.")
        rank = world_size = None
    groups = distributed.get("pg_config")
    return Origin(
        schema=_whole(values.get("schemaVersion"), "schemaVersion", range(1_000), notes),
        base_ns=_whole(values.get("baseTimeNanoseconds"), "baseTimeNanoseconds", range(_LARGEST_BASE_NS), notes),
        rank=rank,
        world_size=world_size,
        backend=_text(distributed.get("backend")),
        host=_text(values.get("host_name")),
        devices=_devices(values.get("deviceProperties"), notes),
        process_groups=json.dumps(groups, separators=(",", ":")) if groups else None,
        trace_id=_text(values.get("trace_id")),
    )


def rank_at(frame: Frame, path: tuple[str, ...]) -> int | None:
    """Return the rank that stands under these keys, from the outermost object on; what is none is noted."""
    value: Any = frame.values
    for key in path:
        if isinstance(value, str):
            found = read_object(value.encode("utf-8", "replace"))
            value = found[0] if found else value
        value = value.get(key) if isinstance(value, dict) else None
    return _whole(value, ".".join(path), range(_LARGEST_RANK), frame.notes)


_WRITTEN = re.compile(r"-?[0-9]{1,19}", re.ASCII)


def _whole(value: Any, key: str, allowed: range, notes: list[str]) -> int | None:
    number = value
    if _WRITTEN.fullmatch(value) if isinstance(value, str) else isinstance(value, float) and value.is_integer():
        number = int(value)
    if isinstance(number, int) and not isinstance(number, bool) and number in allowed:
        return number
    if value is not None:
        notes.append(f"{key} makes no sense and is not used: {_shown(value)}.")
    return None


def _text(value: Any) -> str | None:
    return without_surrogates(value[:_LONGEST_TEXT]) if isinstance(value, str) and value else None


def _devices(value: Any, notes: list[str]) -> tuple[Device, ...]:
    found = []
    for device in value[:_MOST_DEVICES] if isinstance(value, list) else ():
        if (
            isinstance(device, dict)
            and (index := _whole(device.get("id"), "device id", range(2**31), notes)) is not None
        ):
            memory = _whole(device.get("totalGlobalMem"), "totalGlobalMem", range(2**63), notes)
            found.append(Device(index, _text(device.get("name")) or "", memory))
    return tuple(found)


def _shown(value: object) -> str:
    return sample(str(value))[:80]
