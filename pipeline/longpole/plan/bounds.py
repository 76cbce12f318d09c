"""What a number has to be before a formula sees it."""

from __future__ import annotations

import math

from longpole.errors import LongpoleError


def at_least_one(**counts: int) -> None:
    """Check that each count is 1 or more.

    Raises:
        LongpoleError: One is not; says which.
    """
    for name, count in counts.items():
        if count < 1:
            raise LongpoleError(f"{_words(name)} cannot be {count:,}", "Give a whole number of 1 or more.")


def above_zero(**amounts: float) -> None:
    """Check that each amount is finite and above zero.

    Raises:
        LongpoleError: One is not; says which.
    """
    for name, amount in amounts.items():
        if not (math.isfinite(amount) and amount > 0):
            raise LongpoleError(f"{_words(name)} cannot be {amount:g}", "Give a number above 0.")


def not_negative(**amounts: float) -> None:
    """Check that each amount is finite and not below zero.

    Raises:
        LongpoleError: One is not; says which.
    """
    for name, amount in amounts.items():
        if not (math.isfinite(amount) and amount >= 0):
            raise LongpoleError(f"{_words(name)} cannot be {amount:g}", "Give 0 or more.")


def utilization(mfu_ratio: float) -> None:
    """Check that an MFU is above 0 and no more than 1.

    Raises:
        LongpoleError: It is not.
    """
    if not 0 < mfu_ratio <= 1:
        raise LongpoleError(
            f"an MFU of {mfu_ratio:g} cannot be",
            "Give a share above 0 and up to 1, as 0.4 or 40%. One above 1 that was measured has a wrong peak (another "
            "dtype's, a device's without the others), or counts tokens or accumulation twice.",
        )


def _words(name: str) -> str:
    return name.replace("_", " ")
