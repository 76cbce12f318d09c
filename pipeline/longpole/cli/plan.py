"""`longpole plan`: what a run would take, from a handful of numbers and no dump."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.table import Table

from longpole import __version__, presets
from longpole.cli.options import print_table, stderr
from longpole.cli.output import page_path, write_page
from longpole.errors import LongpoleError, UsageError
from longpole.plan import clocks as four_clocks
from longpole.plan.buckets import Exchange
from longpole.plan.clocks import LAUNCH_S, LAYER_LAUNCHES, TRAINING_LAUNCHES, Machine
from longpole.plan.duration import Job, Losses
from longpole.plan.memory import ELEMENT_BYTES, Optimizer, Precision, kv_cache
from longpole.presets import Device, ModelSizes
from longpole.report import clock_sheets, exchange_sheets, run_sheets
from longpole.report.sheets import Sheet
from longpole.text import printable
from longpole.units import parse_amount, parse_duration

plan = App(
    name="plan",
    help="""Answer before a run what it would take: closed forms, no dump.

Numbers may be written 7e9 or 7B, sizes 141GB, rates 989T, bandwidths 450GB/s or 400Gbit/s, times 50us, 2h or 1d.

Example: longpole plan duration --params 7B --tokens 100B --devices 64 --peak-flops 300T --mfu 40%""",
    help_format="plaintext",
)

ModelOption = Annotated[str | None, Parameter(help="A known model, as llama-3-70b; options given beside it win.")]
ParamsOption = Annotated[str | None, Parameter(help="Parameters, as 7B.")]
DeviceOption = Annotated[str | None, Parameter(help="A known device, as h100-sxm; options given beside it win.")]
DtypeOption = Annotated[str, Parameter(help="Whose peak counts.")]
PeakOption = Annotated[str | None, Parameter(help="Dense peak of one device, FLOP/s, as 989T.")]
SequenceOption = Annotated[str | None, Parameter(help="Tokens of a sequence.")]
LayerOption = Annotated[bool, Parameter(help="Only one layer of --model.", negative="")]
LaunchOption = Annotated[str, Parameter(help="Host time of one launch.")]


@Parameter(name="*")
@dataclass(frozen=True)
class OutputFlags:
    """How the answer comes out."""

    format: Annotated[Literal["table", "json"], Parameter(help="How to print the answer.")] = "table"
    output: Annotated[str | None, Parameter(name=["--output", "-o"], help="Also write it as a page, with a curve.")] = (
        None
    )
    force: Annotated[bool, Parameter(help="Overwrite a file that is no page of longpole's.")] = False


@Parameter(name="*")
@dataclass(frozen=True)
class MachineFlags:
    """One device."""

    device: DeviceOption = None
    dtype: DtypeOption = "bf16"
    peak_flops: PeakOption = None
    hbm: Annotated[str | None, Parameter(help="Memory bandwidth, as 3.35TB/s.")] = None
    launch: LaunchOption = f"{LAUNCH_S * 1e6:g}us"

    def machine(self, link: str | None = None) -> Machine:
        """Return what the formulas take; the device's own link where none is given."""
        known = presets.device(self.device) if self.device else None
        own = known.link_bytes_per_s if known else None
        return Machine(
            peak_flops_per_s=_peak(self.peak_flops, known, self.dtype),
            hbm_bytes_per_s=_bandwidth(self.hbm, known.hbm_bytes_per_s if known else None),
            link_bytes_per_s=float(parse_amount(link, "B/s")) if link else own,
            launch_s=parse_duration(self.launch, least_ns=0) / 10**9,
        )


Outcome = Annotated[OutputFlags, Parameter(name="*")]
_PLAIN = OutputFlags()
_NO_MACHINE = MachineFlags()


@plan.command
def duration(
    *,
    tokens: Annotated[str, Parameter(help="Tokens to train on, as 100B.")],
    devices: Annotated[str, Parameter(help="Devices.")],
    mfu: Annotated[str, Parameter(help="Model FLOPs utilization to assume, as 0.4 or 40%.")],
    params: ParamsOption = None,
    model: ModelOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = "bf16",
    peak_flops: PeakOption = None,
    downtime: Annotated[str | None, Parameter(help="Time in all that the job does not run, as 2d.")] = None,
    evaluation: Annotated[str | None, Parameter(help="Time of one evaluation.")] = None,
    evaluation_every: Annotated[str | None, Parameter(help="Training time between evaluations.")] = None,
    checkpoint: Annotated[str | None, Parameter(help="Time that training stands still for a checkpoint.")] = None,
    checkpoint_every: Annotated[str | None, Parameter(help="Training time between checkpoints, as 1h.")] = None,
    restart: Annotated[str | None, Parameter(help="Time from a failure to the next step.")] = None,
    failure_every: Annotated[str | None, Parameter(help="Mean time between failures of the whole job.")] = None,
    out: Outcome = _PLAIN,
) -> None:
    """How long a run takes, and at other MFUs.

    Example: longpole plan duration --params 7B --tokens 100B --devices 64 --peak-flops 300T --mfu 40%
    """
    sizes = _sizes(model)
    losses = Losses(
        downtime_s=_span(downtime),
        evaluation_s=_span(evaluation),
        evaluation_every_s=_span(evaluation_every),
        checkpoint_s=_span(checkpoint),
        checkpoint_every_s=_span(checkpoint_every),
        restart_s=_span(restart),
        failure_every_s=_span(failure_every),
    )
    job = Job(
        params=_params(params, sizes.active_params if sizes else None),
        tokens=_whole(tokens),
        devices=_whole(devices),
        peak_flops_per_s=_peak(peak_flops, presets.device(device) if device else None, dtype),
        mfu_ratio=_share(mfu),
        losses=losses,
    )
    _show(run_sheets.duration_sheet(job), out)


@plan.command
def tokens(
    *,
    sequences: Annotated[str, Parameter(help="Sequences of one microbatch of a rank.")],
    seq_len: Annotated[str, Parameter(help="Tokens of a sequence.")],
    dp: Annotated[str, Parameter(help="Data-parallel ranks.")] = "1",
    accumulation: Annotated[str, Parameter(help="Microbatches of one update.")] = "1",
    out: Outcome = _PLAIN,
) -> None:
    """Tokens that one update takes.

    Example: longpole plan tokens --dp 4 --sequences 2 --accumulation 8 --seq-len 2048
    """
    sheet = run_sheets.tokens_sheet(
        data_parallel=_whole(dp),
        sequences=_whole(sequences),
        accumulation=_whole(accumulation),
        seq_len=_whole(seq_len),
    )
    _show(sheet, out)


@plan.command
def memory(
    *,
    params: ParamsOption = None,
    model: ModelOption = None,
    optimizer: Annotated[Optimizer, Parameter(help="What keeps moments of each parameter.")] = "adam",
    precision: Annotated[Precision, Parameter(help="Formats of weights, gradients and moments.")] = "mixed",
    device: DeviceOption = None,
    device_memory: Annotated[str | None, Parameter(help="Memory of one device, as 80GB.")] = None,
    node_devices: Annotated[str, Parameter(help="Devices of a node, which is taken whole.")] = "8",
    batch: Annotated[str, Parameter(help="Sequences at once.")] = "1",
    seq_len: SequenceOption = None,
    layers: Annotated[str | None, Parameter(help="Layers.")] = None,
    hidden: Annotated[str | None, Parameter(help="Hidden size.")] = None,
    heads: Annotated[str | None, Parameter(help="Attention heads.")] = None,
    kv_heads: Annotated[str | None, Parameter(help="Heads with keys and values of their own.")] = None,
    head_dim: Annotated[str | None, Parameter(help="Size of a head.")] = None,
    out: Outcome = _PLAIN,
) -> None:
    """State, activations and key-value cache; how many devices hold the state.

    Example: longpole plan memory --model llama-3-70b --device h100-sxm
    """
    sizes = _sizes(model)
    known = presets.device(device) if device else None
    shape = run_sheets.Shape(
        layers=_either(layers, sizes.layers if sizes else None),
        hidden=_either(hidden, sizes.hidden if sizes else None),
        heads=_either(heads, sizes.heads if sizes else None),
        kv_heads=_either(kv_heads, sizes.kv_heads if sizes else None),
        head_dim=_either(head_dim, sizes.head_dim if sizes else None),
        seq_len=_either(seq_len, sizes.seq_len if sizes else None),
        batch=_whole(batch),
    )
    sheet = run_sheets.memory_sheet(
        _params(params, sizes.params if sizes else None),
        optimizer,
        precision,
        shape,
        device_bytes=_whole(device_memory, "B") if device_memory else known.hbm_bytes if known else None,
        node_devices=_whole(node_devices),
    )
    _show(sheet, out)


@plan.command
def allreduce(
    *,
    size: Annotated[str | None, Parameter(name="--bytes", help="Bytes that each rank holds, as 141GB.")] = None,
    params: Annotated[str | None, Parameter(help="Or parameters, whose gradients have 2 bytes.")] = None,
    model: ModelOption = None,
    ranks: Annotated[str | None, Parameter(help="Ranks of the ring; else only the limit of many.")] = None,
    link: Annotated[
        tuple[str, ...],
        Parameter(help="A link's bandwidth in one direction, as 450GB/s or nvlink=450GB/s; repeatable."),
    ] = (),
    device: Annotated[str | None, Parameter(help="A known device, for its link.")] = None,
    out: Outcome = _PLAIN,
) -> None:
    """Bytes and time of a ring all-reduce.

    Example: longpole plan allreduce --bytes 141GB --ranks 8 --link 450GB/s --link 400Gbit/s
    """
    sizes = _sizes(model)
    if size is None:
        n_bytes = ELEMENT_BYTES * _params(params, sizes.params if sizes else None, others=" or --bytes 141GB")
    else:
        n_bytes = _whole(size, "B")
    links: dict[str, float] = {}
    if device:
        known = presets.device(device)
        links[f"{known.link} of {known.name}"] = known.link_bytes_per_s
    for text in link:
        name, equals, rate = text.rpartition("=")
        if (key := name if equals else rate) in links:
            raise UsageError(f"--link {key} is there twice", "Name links apart, as a=450GB/s.")
        links[key] = float(parse_amount(rate, "B/s"))
    _show(exchange_sheets.allreduce_sheet(n_bytes, ranks=_whole(ranks) if ranks else None, links=links), out)


@plan.command
def bubble(
    *,
    stages: Annotated[str, Parameter(help="Pipeline stages.")],
    microbatches: Annotated[str, Parameter(help="Microbatches of a step.")],
    virtual_stages: Annotated[str, Parameter(help="Parts of the model on each device.")] = "1",
    out: Outcome = _PLAIN,
) -> None:
    """How much of a step a pipeline waits while it fills and drains.

    Example: longpole plan bubble --stages 16 --microbatches 16
    """
    sheet = exchange_sheets.bubble_sheet(
        stages=_whole(stages), microbatches=_whole(microbatches), virtual_stages=_whole(virtual_stages)
    )
    _show(sheet, out)


@plan.command
def clocks(
    *,
    tokens: Annotated[str, Parameter(help="Tokens of a device's batch.")],
    params: ParamsOption = None,
    model: ModelOption = None,
    layer: LayerOption = False,
    ranks: Annotated[str, Parameter(help="Ranks that all-reduce the gradients.")] = "1",
    link: Annotated[str | None, Parameter(help="Bandwidth of their link in one direction.")] = None,
    launches: Annotated[
        str | None, Parameter(help=f"Kernels launched. Default: {TRAINING_LAUNCHES} a layer of --model, else none.")
    ] = None,
    on: Annotated[MachineFlags, Parameter(name="*")] = _NO_MACHINE,
    out: Outcome = _PLAIN,
) -> None:
    """Compute, memory, link and launches of a forward and backward pass: a layer's or a model's.

    Example: longpole plan clocks --model llama-3-70b --layer --tokens 8192 --device h100-sxm
    """
    n_params, n_layers = _work(params, model, layer)
    sheet = clock_sheets.clocks_sheet(
        on.machine(link),
        params=n_params,
        tokens=_whole(tokens),
        ranks=_whole(ranks),
        launches=_whole(launches) if launches else TRAINING_LAUNCHES * n_layers,
    )
    _show(sheet, out)


@plan.command
def matmul(
    *,
    shape: Annotated[str, Parameter(help="ROWSxINNERxCOLUMNS, as 8192x8192x28672.")],
    on: Annotated[MachineFlags, Parameter(name="*")] = _NO_MACHINE,
    out: Outcome = _PLAIN,
) -> None:
    """Compute and memory of one product of matrices, against the ridge.

    Example: longpole plan matmul --shape 8192x8192x28672 --device h100-sxm
    """
    sizes = shape.split("x")
    if len(sizes) != 3:
        raise UsageError(f"{shape!r} is no product", "Write it as 8192x8192x28672: rows, inner size, columns.")
    rows, inner, columns = (_whole(size) for size in sizes)
    _show(clock_sheets.matmul_sheet(on.machine(), rows=rows, inner=inner, columns=columns), out)


@plan.command
def decode(
    *,
    params: ParamsOption = None,
    model: ModelOption = None,
    layer: LayerOption = False,
    batch: Annotated[str, Parameter(help="Sequences at once.")] = "1",
    context: Annotated[str | None, Parameter(help="Tokens that each sequence has in its cache; needs --model.")] = None,
    devices: Annotated[str, Parameter(help="Devices that the weights are split over.")] = "1",
    launches: Annotated[
        str | None, Parameter(help=f"Kernels launched. Default: {LAYER_LAUNCHES} a layer of --model, else none.")
    ] = None,
    on: Annotated[MachineFlags, Parameter(name="*")] = _NO_MACHINE,
    out: Outcome = _PLAIN,
) -> None:
    """The least time of generating a token, and the batch at which arithmetic takes over.

    Example: longpole plan decode --model llama-3-70b --device h100-sxm --batch 32 --context 8192
    """
    n_params, n_layers = _work(params, model, layer)
    sizes = _sizes(model)
    if context and sizes is None:
        raise UsageError("--context needs the size of a token's cache", "Give --model.")
    token_bytes = 0
    if context and sizes:
        token_bytes = kv_cache(
            layers=n_layers, kv_heads=sizes.kv_heads, head_dim=sizes.head_dim, seq_len=1, sequences=1
        ).token_bytes
    sheet = clock_sheets.decode_sheet(
        on.machine(),
        params=n_params,
        batch=_whole(batch),
        context=_whole(context) if context else 0,
        kv_token_bytes=token_bytes,
        devices=_whole(devices),
        launches=_whole(launches) if launches else LAYER_LAUNCHES * n_layers,
        all_params=sizes.params if sizes and not layer and params is None else n_params,
        device_bytes=presets.device(on.device).hbm_bytes if on.device else None,
    )
    _show(sheet, out)


@plan.command
def buckets(
    *,
    ready: Annotated[str | None, Parameter(help="When each bucket is ready, as 300ms,400ms,500ms,600ms.")] = None,
    service: Annotated[str | None, Parameter(help="How long each is exchanged, as 100ms,100ms,100ms,50ms.")] = None,
    size: Annotated[str | None, Parameter(name="--bytes", help="Or gradients in all, as 16GB.")] = None,
    backward: Annotated[str | None, Parameter(help="Time of backward, over which they become ready.")] = None,
    ranks: Annotated[str | None, Parameter(help="Ranks that all-reduce them.")] = None,
    link: Annotated[str | None, Parameter(help="Bandwidth in one direction.")] = None,
    overhead: Annotated[str | None, Parameter(help="Time of one all-reduce of next to nothing, as 50us.")] = None,
    bucket: Annotated[str | None, Parameter(help="Size of a bucket, as 25MiB. Default: the best.")] = None,
    out: Outcome = _PLAIN,
) -> None:
    """The queue of gradient buckets: what sticks out after backward, and the best size.

    Example: longpole plan buckets --bytes 16GB --backward 400ms --ranks 64 --link 400Gbit/s --overhead 50us
    """
    if ready is not None and service is not None:
        _show(exchange_sheets.queue_sheet(_spans_ns(ready), _spans_ns(service)), out)
        return
    if size is None or backward is None or ranks is None or link is None or overhead is None:
        raise UsageError(
            "too little is given for a queue",
            "Give --ready and --service, or --bytes, --backward, --ranks, --link and --overhead.",
        )
    work = Exchange(
        n_bytes=_whole(size, "B"),
        backward_ns=parse_duration(backward),
        ranks=_whole(ranks),
        bytes_per_s=float(parse_amount(link, "B/s")),
        overhead_ns=parse_duration(overhead, least_ns=0),
    )
    _show(exchange_sheets.buckets_sheet(work, bucket_bytes=_whole(bucket, "B") if bucket else None), out)


def _show(sheet: Sheet, out: OutputFlags) -> None:
    """Print a sheet, and write its page where one is asked for."""
    if out.output:
        _write_page(sheet, out.output, force=out.force)
    if out.format == "json":
        curve = sheet.curve.rows if sheet.curve else []
        block = {"question": sheet.question, "given": sheet.given, "answer": sheet.answer, "curve": curve}
        sys.stdout.write(json.dumps(block, indent=1, allow_nan=False) + "\n")
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for line in sheet.lines:
        table.add_row(printable(line.what), line.value, printable(line.how))
    print_table(table, above=[printable(sheet.summary)], below=[f"({note})" for note in sheet.notes])


def _write_page(sheet: Sheet, output: str, *, force: bool) -> None:
    from longpole.report import plan_page  # what draws is loaded only here: most answers are lines on a terminal

    path = page_path(output, "", force=force)
    write_page(path, plan_page.render(sheet, tool_version=__version__))
    stderr().print(f"wrote {path}")


def _sizes(model: str | None) -> ModelSizes | None:
    return presets.model(model) if model else None


def _work(params: str | None, model: str | None, layer: bool) -> tuple[int, int]:
    """Return the parameters that a token passes through, and in how many layers as far as that is known."""
    sizes = _sizes(model)
    if layer and sizes is None:
        raise UsageError("--layer is of a model that is not named", "Give --model, or the layer's own --params.")
    if sizes is None:
        return _params(params, None), 0
    if layer:
        return _params(params, four_clocks.layer_params(sizes)), 1
    return _params(params, sizes.active_params), sizes.layers


def _params(text: str | None, known: int | None, *, others: str = "") -> int:
    if text is not None:
        return _whole(text)
    if known is None:
        raise UsageError("nothing says how many parameters", f"Give --params 7B or --model llama-3-8b{others}.")
    return known


def _either(text: str | None, known: int | None) -> int | None:
    return known if text is None else _whole(text)


def _peak(text: str | None, device: Device | None, dtype: str) -> float:
    if text is not None:
        return float(parse_amount(text, "FLOP/s"))
    if device is None:
        raise UsageError("nothing says how fast a device is", "Give --device h100-sxm, or --peak-flops 989T.")
    if dtype not in device.peak_flops:
        raise LongpoleError(
            f"no peak of {device.name} is known for {dtype}",
            f"Known are {', '.join(device.peak_flops)}: give --dtype, or --peak-flops.",
        )
    return device.peak_flops[dtype]


def _bandwidth(text: str | None, known: float | None) -> float:
    if text is not None:
        return float(parse_amount(text, "B/s"))
    if known is None:
        raise UsageError("nothing says how fast memory is", "Give --device h100-sxm, or --hbm 3.35TB/s.")
    return known


def _whole(text: str, unit: Literal["", "B"] = "") -> int:
    amount = parse_amount(text, unit)
    if amount != int(amount):
        raise UsageError(f"{text!r} is no whole number", "Give one without a fraction.")
    return int(amount)


def _share(text: str) -> float:
    is_percent = text.endswith("%")
    amount = parse_amount(text.removesuffix("%"), "")
    return float(amount / Decimal(100) if is_percent else amount)


def _span(text: str | None) -> float:
    return 0.0 if text is None else parse_duration(text, least_ns=0) / 10**9


def _spans_ns(text: str) -> list[int]:
    return [parse_duration(part, least_ns=0) for part in text.split(",")]
