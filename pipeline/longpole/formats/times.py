"""Decimal times become integer nanoseconds exactly: decimal and integer arithmetic only, never a float."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

Mask = npt.NDArray[np.bool_]
_Longs = npt.NDArray[np.int64]

_NUMBER = re.compile(r"[ \t\r\n]*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[ \t\r\n]*", re.ASCII)
_PLAIN = r"^-?[0-9]{1,19}(\.[0-9]{1,18})?$"  # 19 digits times 10**18 fit 128 bits
_PLAIN_TYPE = pa.decimal128(38, 18)
_LONGEST_TEXT = 64  # characters of one time; more digits than any writer prints
_EXACT = Context(prec=200, Emin=-10_000, Emax=10_000)
_HALF = Decimal("0.5")


@dataclass(frozen=True)
class Times:
    """One column of times, a slot per event."""

    ns: _Longs  # 0 where there is no time
    is_absent: Mask  # the event has no such key, or null
    is_malformed: Mask | None = None  # no number, or beyond int64 ns; None: nowhere
    is_rounded: Mask | None = None  # digits below 1 ns were rounded half up; None: nowhere


def from_decimals(array: pa.Array, digits: int = 3) -> Times:
    """Return the times of an array of 128-bit decimals, rounded half up to 1 ns.

    Args:
        array: With as many places as `digits` or more.
        digits: That its unit has more than a nanosecond: 3 for microseconds.
    """
    is_absent = _is_null(array)
    words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[0::2].copy(), words[1::2].copy()
    if is_absent.any():
        low[is_absent] = high[is_absent] = 0  # a missing value's slot may hold anything
    is_rounded = None
    if array.type.scale > digits:
        low, high, is_rounded = _to_nearest(low, high, array.type.scale - digits)
    is_wider = (low >> 63) != high
    if not is_wider.any():
        return Times(low, is_absent, None, is_rounded)
    low[is_wider] = 0
    return Times(low, is_absent, is_wider, is_rounded)


def _to_nearest(low: _Longs, high: _Longs, digits: int) -> tuple[_Longs, _Longs, Mask | None]:
    """Return 128-bit integers divided by 10**digits, half up, and where that was not exact.

    Arrow's own `round` is not used: near the end of its precision it sends some ties the wrong way.
    """
    half = 5 * 10 ** (digits - 1)
    lifted = (low.view(np.uint64) + np.uint64(half)).view(np.int64)
    high = high + (lifted.view(np.uint64) < np.uint64(half))
    low = lifted
    is_rounded = _none(len(low))
    while digits:  # floors nest, so the divisor may be taken in parts that fit 31 bits
        step = min(digits, 9)
        low, high, rest = _divide(low, high, 10**step)
        digits -= step
        is_rounded |= rest != (0 if digits else half)
        half //= 10**step
    return low, high, is_rounded if is_rounded.any() else None


def _divide(low: _Longs, high: _Longs, divisor: int) -> tuple[_Longs, _Longs, _Longs]:
    """Return the floor of 128-bit integers over `divisor` < 2**31 as low and high words, and the remainders."""
    high_quotient, rest = np.divmod(high, divisor)
    upper, rest = np.divmod((rest << 32) | ((low >> 32) & 0xFFFFFFFF), divisor)
    lower, rest = np.divmod((rest << 32) | (low & 0xFFFFFFFF), divisor)
    # upper < 2**32 because the rest before it is smaller than the divisor
    return (upper << 32) | lower, high_quotient, rest


def from_texts(texts: list[str | None], digits: int = 3) -> Times:
    """Return the times of JSON numbers as they were written; whatever is no number is malformed."""
    array = pa.array(texts, pa.string())
    is_plain = pc.fill_null(pc.match_substring_regex(array, _PLAIN), False)
    times = from_decimals(pc.if_else(is_plain, array, pa.scalar(None, pa.string())).cast(_PLAIN_TYPE), digits)
    odd = np.flatnonzero(~is_plain.to_numpy(zero_copy_only=False) & ~_is_null(array))
    if not len(odd):
        return times
    ns, is_absent = times.ns.copy(), _is_null(array)
    is_malformed = _none(len(texts)) if times.is_malformed is None else times.is_malformed
    is_rounded = _none(len(texts)) if times.is_rounded is None else times.is_rounded.copy()
    for slot in odd:
        one = _one(texts[slot] or "", digits)
        if one is None:
            is_malformed[slot] = True
        else:
            ns[slot], is_rounded[slot] = one
    return Times(ns, is_absent, is_malformed, is_rounded)


def _one(text: str, digits: int) -> tuple[int, bool] | None:
    if len(text) > _LONGEST_TEXT or not _NUMBER.fullmatch(text):
        return None
    try:
        value = Decimal(text.strip())
    except InvalidOperation:  # an exponent of twenty digits, which a Decimal does not hold
        return None
    if value.adjusted() > 30:  # beyond int64 by far; scaling it would build a number of as many digits
        return None
    if value.adjusted() < -30:
        return 0, bool(value)
    exact = _EXACT.scaleb(value, digits)
    ns = _EXACT.add(exact, _HALF).to_integral_value(ROUND_FLOOR)
    if not INT64_MIN <= ns <= INT64_MAX:
        return None
    return int(ns), ns != exact


def _is_null(array: pa.Array) -> Mask:
    if not array.null_count:
        return _none(len(array))
    mask: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _none(n: int) -> Mask:
    return np.zeros(n, np.bool_)
