"""How much of a step a pipeline's stages wait while it fills and drains."""

from __future__ import annotations

from dataclasses import dataclass

from longpole.plan import bounds


@dataclass(frozen=True)
class Bubble:
    """Waiting of each stage, where all stages and microbatches take the same time."""

    bubble_ratio: float  # of the step
    of_work_ratio: float  # of the time that work takes


def bubble(*, stages: int, microbatches: int, virtual_stages: int = 1) -> Bubble:
    """Return (p−1)/(m+p−1) of the step: Huang et al. 2019, GPipe (arXiv 1811.06965); 1F1B waits as long.

    With v parts of the model on each device, which take turns, a part is a v-th of the work, so (p−1)/(v·m+p−1):
    Narayanan et al. 2021, Efficient Large-Scale Language Model Training (arXiv 2104.04473), section 2.2.2.

    Raises:
        LongpoleError: A number below 1.
    """
    bounds.at_least_one(stages=stages, microbatches=microbatches, virtual_stages=virtual_stages)
    fill, work = stages - 1, virtual_stages * microbatches
    return Bubble(fill / (work + fill), fill / work)
