"""What a step of a job with a straggler launches, by pipeline stage, and who is in which group and on which host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longpole.errors import UsageError
from longpole.synth.made import RANKS_PER_HOST, US
from longpole.synth.mesh_rows import Group, Kind

STAGES = 4
MICRO_BATCHES = 4
_LAYERS = 4
_UPDATES = 4
_N_HOSTS = 4
_N_HOSTS_PAIRED = 8
"""Hosts of a small job; one of more ranks has more hosts, of RANKS_PER_HOST."""

_GRADIENTS = 13_107_200
_ACTIVATIONS = 6_553_600

_REDUCE = ("allreduce", "c10d::allreduce_", "nccl:all_reduce", "all_reduce")
_PAIR = ("send_recv", "BFloat16", 2, _ACTIVATIONS, _ACTIVATIONS)
KINDS = {
    "reduce": Kind("AllReduce_Sum_bf16_RING_LL", *_REDUCE, "BFloat16", 2, _GRADIENTS, _GRADIENTS),
    "norm": Kind("AllReduce_Sum_f32_RING_LL", *_REDUCE, "Float", 4, 1, 1),
    "send": Kind("SendRecv", "send", "c10d::send", "nccl:send {0}->{1}", *_PAIR),
    "recv": Kind("SendRecv", "recv", "c10d::recv_", "nccl:recv {0}<-{1}", *_PAIR),
}
"""What `Launch.kind` stands for."""

_GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_{}_n_tilesize128x{}x64"
_Kernel = tuple[str, str, str, int, int]
"""Work on the device, the operators around its launch, microseconds, which module of its layer it is of."""

_FORWARD: tuple[_Kernel, ...] = (
    (_GEMM.format("tn", 256), "aten::linear", "aten::addmm", 180, 0),
    ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", "aten::sdpa", "aten::_flash", 260, 1),
    (_GEMM.format("tn", 128), "aten::linear", "aten::addmm", 140, 2),
    (_GEMM.format("tn", 256), "aten::linear", "aten::addmm", 240, 3),
    (_GEMM.format("tn", 256), "aten::linear", "aten::addmm", 220, 4),
)
_ATTENTION_BACKWARD = "void flash::flash_bwd_dq_dk_dv_loop_kernel<Flash_bwd_kernel_traits<128>>"
_TO_INPUT, _TO_WEIGHT = _GEMM.format("nn", 128), _GEMM.format("nt", 256)
_BACKWARD: tuple[_Kernel, ...] = (
    (_TO_INPUT, "AddmmBackward0", "aten::mm", 215, 4),
    (_TO_WEIGHT, "AddmmBackward0", "aten::mm", 215, 4),
    (_TO_INPUT, "AddmmBackward0", "aten::mm", 230, 3),
    (_TO_WEIGHT, "AddmmBackward0", "aten::mm", 230, 3),
    (_TO_INPUT, "AddmmBackward0", "aten::mm", 140, 2),
    (_TO_WEIGHT, "AddmmBackward0", "aten::mm", 140, 2),
    (_ATTENTION_BACKWARD, "SdpaBackward0", "aten::_bwd", 520, 1),
    (_TO_INPUT, "AddmmBackward0", "aten::mm", 180, 0),
    (_TO_WEIGHT, "AddmmBackward0", "aten::mm", 180, 0),
)
_SOFTMAX = "void at::native::cunn_SoftMaxForward<4, c10::BFloat16, float>"
_HEAD_FORWARD: tuple[_Kernel, ...] = (
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize256x128x64", "aten::linear", "aten::mm", 15, 5),
    (_SOFTMAX, "aten::cross_entropy_loss", "aten::log_softmax", 10, 6),
)
_HEAD_BACKWARD: tuple[_Kernel, ...] = (
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize256x128x64", "MmBackward0", "aten::mm", 15, 5),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize256x128x64", "MmBackward0", "aten::mm", 15, 5),
)
"""Logits and loss, of the last stage alone: next to nothing but where more is put in."""

_N_MODULES = 7

_UPDATE = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float>>"

Names = tuple[str, ...]


@dataclass(frozen=True)
class Launch:
    """One launch of a stage's step; on the device it takes `base_ns` but for jitter and what is put in."""

    stream: str  # compute, or whom it spans: dp, world, up and down (the next and the previous stage)
    base_ns: int
    names: Names = ()  # the work on the device, then the operators around its call, outermost first
    category: str = "kernel"
    part: str = ""  # attention or head
    kind: str | None = None  # of a collective
    is_backward: bool = False
    is_update: bool = False
    sequence: int | None = None
    after: tuple[int, ...] = ()  # the launches, by place, on other streams that end before it begins
    n_bytes: int | None = None

    @property
    def is_work(self) -> bool:
        """Whether the clock of its device sets how long it takes."""
        return self.category == "kernel" and self.kind is None

    @property
    def lead_ns(self) -> int:
        """Host time before it that no operator covers."""
        return 40 * US if self.kind else 55 * US

    @property
    def body_ns(self) -> int:
        """Host time in its outermost operator; its call is made in the middle."""
        return 80 * US if self.kind else 45 * US


Program = tuple[Launch, ...]


@dataclass(frozen=True)
class Job:
    """The ranks of a job, stage after stage, and what the ranks of each stage launch."""

    n_ranks: int
    ranks_per_host: int
    programs: tuple[Program, ...]
    groups: tuple[Group, ...]

    @property
    def width(self) -> int:
        """Ranks of a stage."""
        return self.n_ranks // len(self.programs)

    def ranks(self, stage: int) -> range:
        """Return the ranks of a stage."""
        return range(stage * self.width, (stage + 1) * self.width)

    def host(self, rank: int) -> int:
        """Return the number of the rank's host."""
        return rank // self.ranks_per_host

    def on_host(self, host: int) -> range:
        """Return the ranks of a host."""
        return range(host * self.ranks_per_host, min((host + 1) * self.ranks_per_host, self.n_ranks))


def data_parallel(n_ranks: int) -> Job:
    """Return a job whose ranks all sum their gradients together, bucket by bucket beside the backward pass.

    Raises:
        UsageError: It is one rank.
    """
    if n_ranks < 2:
        raise UsageError("a rank alone has no others to be slower than", "Give at least 2 ranks.")
    per_host = min(RANKS_PER_HOST, max(1, n_ranks // _N_HOSTS))
    return Job(n_ranks, per_host, (_model("world"),), (_world(n_ranks),))


def paired(n_ranks: int) -> Job:
    """Return a job whose hosts stand in pairs: a rank sums gradients with its like on the other host of the pair.

    All ranks meet once a step, for the norm of the gradients.

    Raises:
        UsageError: The ranks are no multiple of eight.
    """
    _multiple(n_ranks, _N_HOSTS_PAIRED)
    per_host = min(RANKS_PER_HOST, n_ranks // _N_HOSTS_PAIRED)
    pairs = [
        (first, first + per_host)
        for host in range(0, n_ranks // per_host, 2)
        for first in range(host * per_host, (host + 1) * per_host)
    ]
    return Job(n_ranks, per_host, (_model("dp"),), (_world(n_ranks), *_numbered("mesh_dp", pairs)))


def pipelined(n_ranks: int) -> Job:
    """Return a job of STAGES pipeline stages, whose ranks sum gradients within the stage.

    Raises:
        UsageError: The ranks are no multiple of eight.
    """
    _multiple(n_ranks, 2 * STAGES)
    width = n_ranks // STAGES
    chains = [tuple(range(first, n_ranks, width)) for first in range(width)]
    stages = [tuple(range(first, first + width)) for first in range(0, n_ranks, width)]
    groups = _numbered("mesh_pp", chains)
    groups += _numbered("mesh_dp", stages, 1 + len(groups))
    per_host = min(RANKS_PER_HOST, width)
    return Job(n_ranks, per_host, tuple(_stage(stage) for stage in range(STAGES)), (_world(n_ranks), *groups))


def _multiple(n_ranks: int, of: int) -> None:
    if n_ranks % of:
        raise UsageError(
            f"{n_ranks} ranks do not fill the hosts and stages of this scenario", f"Give a multiple of {of}."
        )


def _world(n_ranks: int) -> Group:
    return Group("0", "default_pg", tuple(range(n_ranks)))


def _numbered(description: str, members: Sequence[tuple[int, ...]], first: int = 1) -> list[Group]:
    return [Group(str(first + number), description, ranks) for number, ranks in enumerate(members)]


class _List:
    """A program in the making."""

    def __init__(self) -> None:
        self.launches = [
            Launch(
                "compute",
                150 * US,
                ("Memcpy HtoD (Pinned -> Device)", "aten::to", "aten::copy_"),
                category="memcpy",
                n_bytes=8 << 20,
            )
        ]

    def add(self, launch: Launch) -> int:
        """Add a launch and return its place."""
        self.launches.append(launch)
        return len(self.launches) - 1

    def layer(self, kernels: tuple[_Kernel, ...], number: int, after: tuple[int, ...] = ()) -> int:
        """Add the kernels of one pass of layer `number` and return the place of the last."""
        is_backward = kernels in (_BACKWARD, _HEAD_BACKWARD)
        last = 0
        for kernel, outer, inner, us, module in kernels:
            names: Names = (kernel, outer, inner)
            if is_backward:
                names = (kernel, f"autograd::engine::evaluate_function: {outer}", outer, inner)
            last = self.add(
                Launch(
                    "compute",
                    us * US,
                    names,
                    part="attention" if "flash" in kernel else "head" if module > 4 else "",
                    is_backward=is_backward,
                    sequence=number * _N_MODULES + module,
                    after=after,
                )
            )
            after = ()
        return last

    def finish(self, after: tuple[int, ...]) -> Program:
        """Add the update and the read of the loss, which the host waits for, and return all."""
        names = (_UPDATE, "aten::_fused_adamw_")
        for number in range(_UPDATES):
            waits = after if number == 0 else ()
            self.add(Launch("compute", 150 * US, names, is_update=True, after=waits))
        names = ("Memcpy DtoH (Device -> Pinned)", "aten::item")
        self.add(Launch("compute", 3 * US, names, category="memcpy", n_bytes=4))
        return tuple(self.launches)


def _model(stream: str) -> Program:
    """Return the launches of a rank that has the whole model; its buckets go over `stream`."""
    program = _List()
    for number in range(_LAYERS):
        program.layer(_FORWARD, number)
    buckets: tuple[int, ...] = ()
    for number in reversed(range(_LAYERS)):
        last = program.layer(_BACKWARD, number)
        buckets += (program.add(Launch(stream, 900 * US, kind="reduce", is_backward=True, after=(last,))),)
    if stream != "world":
        buckets = (program.add(Launch("world", 30 * US, kind="norm", after=buckets)),)
    return program.finish(buckets)


def _stage(stage: int) -> Program:
    """Return the launches of a rank of a stage, a layer: all forward passes, then all backward."""
    program = _List()
    is_first, is_last = stage == 0, stage == STAGES - 1
    for batch in range(MICRO_BATCHES):
        received = () if is_first else (program.add(Launch("down", 120 * US, kind="recv")),)
        last = program.layer(_FORWARD, batch, received)
        if is_last:
            program.layer(_HEAD_FORWARD, batch)
        else:
            program.add(Launch("up", 120 * US, kind="send", after=(last,)))
    last = 0
    for batch in range(MICRO_BATCHES):
        received = () if is_last else (program.add(Launch("up", 120 * US, kind="recv", is_backward=True)),)
        if is_last:
            program.layer(_HEAD_BACKWARD, batch)
        last = program.layer(_BACKWARD, batch, received)
        if not is_first:
            program.add(Launch("down", 120 * US, kind="send", is_backward=True, after=(last,)))
    reduced = program.add(Launch("dp", 900 * US, kind="reduce", is_backward=True, after=(last,)))
    norm = program.add(Launch("world", 30 * US, kind="norm", after=(reduced,)))
    return program.finish((norm,))
