"""Bytes come decompressed whatever the name says, and end where the file does."""

from __future__ import annotations

import gzip
import io
import zlib

import pytest

from longpole.formats.bytestream import ByteStream

TEXT = b"".join(b"%d, " % (n * 2654435761 % 2**32) for n in range(60_000))


class Dribble(io.BytesIO):
    """A file that gives a few bytes at a time, as a socket may."""

    def read(self, n: int | None = -1, /) -> bytes:
        return super().read(min(n or 0, 1_000))


def drained(data: bytes, kind: type[io.BytesIO] = io.BytesIO) -> tuple[bytes, ByteStream]:
    stream = ByteStream(kind(data))
    text = b"".join(stream)
    return text, stream


@pytest.mark.parametrize("kind", [io.BytesIO, Dribble])
@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT, 1),
        gzip.compress(TEXT[:100_000]) + gzip.compress(TEXT[100_000:]),
        b"".join(gzip.compress(TEXT[at : at + 10_000]) for at in range(0, len(TEXT), 10_000)),
        gzip.compress(TEXT) + bytes(700_000),  # padding of a tape or a block device
    ],
)
def test_the_text_is_whole(data: bytes, kind: type[io.BytesIO]) -> None:
    text, stream = drained(data, kind)
    assert text == TEXT
    assert (stream.is_cut, stream.problem) == (False, "")


@pytest.mark.parametrize("kept", [0.2, 0.9, 0.9999])
def test_a_cut_end_gives_what_came_before(kept: float) -> None:
    data = gzip.compress(TEXT)
    text, stream = drained(data[: int(kept * len(data))])
    assert TEXT.startswith(text)
    assert len(text) > 0.95 * kept * len(TEXT) - 10_000
    assert (stream.is_cut, stream.problem) == (True, "the gzip stream ends early")


def test_a_cut_second_member_gives_the_first_whole() -> None:
    first, second = gzip.compress(TEXT[:100_000]), gzip.compress(TEXT[100_000:])
    text, stream = drained(first + second[:9])
    assert text == TEXT[:100_000]
    assert stream.is_cut


def test_damage_gives_what_came_before() -> None:
    data = bytearray(gzip.compress(TEXT))
    at = int(0.8 * len(data))
    data[at : at + 40] = bytes(40)
    text, stream = drained(bytes(data))
    assert len(text) > 0.2 * len(TEXT)
    assert TEXT[: len(text) - 1_000] == text[:-1_000]
    assert stream.is_cut
    assert stream.problem.startswith("the gzip stream is damaged")


def test_what_follows_gzip_and_is_none_is_left_unread() -> None:
    text, stream = drained(gzip.compress(TEXT) + b"junk")
    assert text == TEXT
    assert (stream.is_cut, stream.problem) == (False, "bytes that are no gzip follow its end")


def test_a_bomb_comes_in_small_pieces() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    assert len(bomb) < 100_000
    lengths = [len(piece) for piece in ByteStream(io.BytesIO(bomb))]
    assert max(lengths) <= 256 << 10
    assert sum(lengths) == 64 << 20


@pytest.mark.parametrize("data", [b"", b"\x1f", b"\x1f\x8b", b"\x1f\x8b\x08\x00junk"])
def test_almost_nothing_is_no_error(data: bytes) -> None:
    text, stream = drained(data)
    assert text == (data if len(data) < 2 else b"")
    assert stream.is_cut == (len(data) >= 2)
