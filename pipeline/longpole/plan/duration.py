"""How long a run takes at an assumed MFU, and what one update consumes."""

from __future__ import annotations

from dataclasses import dataclass

from longpole.errors import LongpoleError
from longpole.plan import bounds

FLOPS_PER_PARAM_TOKEN = 6
"""2 forward and 4 backward for each parameter and token: Kaplan et al. 2020, Scaling Laws for Neural Language Models
(arXiv 2001.08361), section 2.1. Leaves out attention over the sequence and recomputation."""


@dataclass(frozen=True)
class Losses:
    """What a run spends beside training; a measured MFU may include some of it already. Zero is none of it.

    `every` counts training time but for failures, which strike by the clock while the job runs.
    """

    downtime_s: float = 0.0
    evaluation_s: float = 0.0
    evaluation_every_s: float = 0.0
    checkpoint_s: float = 0.0  # that training stands still for one
    checkpoint_every_s: float = 0.0
    restart_s: float = 0.0  # from a failure to the next step
    failure_every_s: float = 0.0  # mean time between failures of the whole job


@dataclass(frozen=True)
class Job:
    """A run that is planned; of a mixture of experts `params` are those that a token passes through."""

    params: int
    tokens: int
    devices: int
    peak_flops_per_s: float  # of one device, dense, at the run's dtype
    mfu_ratio: float
    losses: Losses = Losses()


@dataclass(frozen=True)
class Duration:
    """How long a job takes; the five terms add up to wall_s."""

    model_flops: int
    useful_flops_per_s: float
    training_s: float
    evaluation_s: float
    checkpoint_s: float
    failure_s: float  # restarts, and training that was lost since the last checkpoint
    downtime_s: float
    wall_s: float
    n_evaluations: int
    n_checkpoints: int
    n_failures: float  # to be expected, so not a whole number
    training_ratio: float  # of wall_s


def duration(job: Job) -> Duration:
    """Return how long a job takes: 6·N·D over devices × peak × MFU (Chowdhery et al. 2022, PaLM, app. B), and losses.

    A failure costs a restart and half the time between checkpoints, on average (Young 1974, A first order approximation
    to the optimum checkpoint interval), and failures strike during recovery too, so running time R solves
    R = base + R / failure_every · (restart + lost).

    Raises:
        LongpoleError: A number out of range, or failures that cost more time than lies between them.
    """
    bounds.at_least_one(params=job.params, tokens=job.tokens, devices=job.devices)
    bounds.above_zero(peak_flops=job.peak_flops_per_s)
    bounds.utilization(job.mfu_ratio)
    losses = job.losses
    bounds.not_negative(**vars(losses))
    _check_pairs(losses)
    model_flops = FLOPS_PER_PARAM_TOKEN * job.params * job.tokens
    useful = job.devices * job.peak_flops_per_s * job.mfu_ratio
    training_s = model_flops / useful
    n_evaluations = int(training_s // losses.evaluation_every_s) if losses.evaluation_every_s else 0
    n_checkpoints = int(training_s // losses.checkpoint_every_s) if losses.checkpoint_every_s else 0
    evaluation_s, checkpoint_s = n_evaluations * losses.evaluation_s, n_checkpoints * losses.checkpoint_s
    base_s = training_s + evaluation_s + checkpoint_s
    lost_ratio = 0.0
    if losses.failure_every_s:
        lost_ratio = (losses.restart_s + losses.checkpoint_every_s / 2) / losses.failure_every_s
        if lost_ratio >= 1:
            raise LongpoleError(
                f"a failure every {losses.failure_every_s:g} s that costs {lost_ratio * losses.failure_every_s:g} s "
                "lets no run end",
                "Checkpoint more often, restart faster, or plan with fewer failures.",
            )
    running_s = base_s / (1 - lost_ratio)
    wall_s = running_s + losses.downtime_s
    return Duration(
        model_flops=model_flops,
        useful_flops_per_s=useful,
        training_s=training_s,
        evaluation_s=evaluation_s,
        checkpoint_s=checkpoint_s,
        failure_s=running_s - base_s,
        downtime_s=losses.downtime_s,
        wall_s=wall_s,
        n_evaluations=n_evaluations,
        n_checkpoints=n_checkpoints,
        n_failures=running_s / losses.failure_every_s if losses.failure_every_s else 0.0,
        training_ratio=training_s / wall_s,
    )


def _check_pairs(losses: Losses) -> None:
    pairs = (
        (losses.evaluation_s, losses.evaluation_every_s, "evaluation"),
        (losses.checkpoint_s, losses.checkpoint_every_s, "checkpoint"),
        (losses.restart_s, losses.failure_every_s, "restart"),
    )
    for takes, every, name in pairs:
        if takes and not every:
            other = "failure" if name == "restart" else name
            raise LongpoleError(f"a {name} takes {takes:g} s, but nothing says how often", f"Give --{other}-every too.")
    if losses.failure_every_s and not losses.checkpoint_every_s:
        raise LongpoleError(
            "failures lose what was trained since the last checkpoint, and nothing says how old that is",
            "Give --checkpoint-every too.",
        )


@dataclass(frozen=True)
class Update:
    """What one optimizer step consumes."""

    microbatch_tokens: int  # of one data-parallel rank
    tokens: int


def update(*, data_parallel: int, sequences: int, accumulation: int, seq_len: int) -> Update:
    """Return the tokens of one microbatch and of one update: dp × sequences × accumulation × length, all positions.

    Raises:
        LongpoleError: A number below 1.
    """
    bounds.at_least_one(
        data_parallel_ranks=data_parallel, sequences=sequences, accumulation=accumulation, sequence_length=seq_len
    )
    return Update(sequences * seq_len, data_parallel * sequences * accumulation * seq_len)
