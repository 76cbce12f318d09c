"""Numbers and text as a person reads them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.errors import UsageError
from longpole.text import printable
from longpole.units import amount_text, bytes_text, duration_text, parse_amount, parse_bytes, parse_duration, span_text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "n/a"),
        (0, "0 ns"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (5_000, "5.00 µs"),
        (36_080_031, "36.08 ms"),
        (99_994_999, "99.99 ms"),
        (99_995_000, "100.0 ms"),
        (426_300_000, "426.3 ms"),
        (999_949_999, "999.9 ms"),
        (999_950_000, "1.00 s"),
        (999_999, "1.00 ms"),
        (1_161_955_000, "1.16 s"),
        (86_400_000_000_000, "86,400.0 s"),
        (-250_382, "-250.4 µs"),
        (-7, "-7 ns"),
    ],
)
def test_a_duration_has_its_unit_and_never_a_thousand_of_it(ns: int | None, text: str) -> None:
    assert duration_text(ns) == text


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (4_404_019, "4.2 MiB"),
        (1024**2 - 1, "1.0 MiB"),
        (1024**3 - 1, "1.0 GiB"),
        (1024**4, "1.0 TiB"),
        (5000 * 1024**4, "5,000.0 TiB"),
    ],
)
def test_a_size_has_a_binary_unit(n: int, text: str) -> None:
    assert bytes_text(n) == text


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("1048576", 1 << 20),
        ("1b", 1),
        ("500MB", 500_000_000),
        ("500 mb", 500_000_000),
        ("2GiB", 2 << 30),
        (" 2gib ", 2 << 30),
        ("1.5KiB", 1536),
        ("0.1GB", 100_000_000),
        ("3TB", 3 * 10**12),
        ("1TiB", 1 << 40),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_a_size_is_read_as_it_is_written(text: str, n: int) -> None:
    assert parse_bytes(text) == n


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "GB",
        "-1",
        "1e9",
        "1,000",
        "2G",
        "2 G B",
        "2GiBs",
        "1.",
        ".5GB",
        "0",
        "0GB",
        "0.2b",
        "\u0663GB",
        "9" * 400,
    ],
)
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is no size") as caught:
        parse_bytes(text)
    assert caught.value.cure == "Write a number and a unit: 500MB, 2GiB."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("void gemm<float, 4>(µ)", "void gemm<float, 4>(µ)"),
        ("one\ttwo\nthree", "one\ttwo\nthree"),
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        ("\x9b31mred", "\ufffd31mred"),
        ("a\rb\x00c\x7f\x08", "a\ufffdb\ufffdc\ufffd\ufffd"),
        ("\x1b]8;;http://x\x07y", "\ufffd]8;;http://x\ufffdy"),
        ("abc\u202ecba", "abc\ufffdcba"),
        ("\u2066x\u2069\u200e\u200f\u061c", "\ufffdx\ufffd\ufffd\ufffd\ufffd"),
        ("line\u2028para\u2029", "line\ufffdpara\ufffd"),
        ("rank\udcff", "rank\ufffd"),
    ],
)
def test_nothing_that_commands_a_terminal_is_printed(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "L", "N"])))
def test_no_control_direction_or_surrogate_character_is_left(text: str) -> None:
    for character in printable(text):
        assert character in "\t\n" or unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(character) not in (
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        )
    assert len(printable(text)) == len(text)
    printable(text).encode()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ns"),
        (5.1e-4, "510.0 µs"),
        (0.0420896, "42.09 ms"),
        (119.0, "119.0 s"),
        (120.0, "2.00 min"),
        (7_200.0, "2.00 hours"),
        (546_875.0, "6.33 days"),
        (86_400.0 * 1_234.5, "1,234 days"),
    ],
)
def test_a_span_of_any_length_has_the_unit_that_fits(seconds: float, text: str) -> None:
    assert span_text(seconds) == text


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (1_073_741_824, "B", "1.074 GB"),
        (999_960, "B", "1 MB"),
        (1_128_000_000_000, "B", "1.128 TB"),
        (4_200_000_000_000_000_000_000, "FLOP", "4.2e21 FLOP"),
    ],
)
def test_an_amount_has_four_digits_and_a_decimal_prefix(amount: float, unit: str, text: str) -> None:
    assert amount_text(amount, unit) == text


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("7e9", "", 7_000_000_000),
        ("70.5B", "", 70_500_000_000),
        ("131,072", "", 131_072),
        ("100_000", "", 100_000),
        ("-5", "", -5),
        ("141GB", "B", 141_000_000_000),
        ("141 GB", "B", 141_000_000_000),
        ("25MiB", "B", 26_214_400),
        ("141e9", "B", 141_000_000_000),
        ("3.35TB/s", "B/s", 3_350_000_000_000),
        ("400Gbit/s", "B/s", 50_000_000_000),
        ("450G", "B/s", 450_000_000_000),
        ("989T", "FLOP/s", 989_000_000_000_000),
        ("989TFLOP/s", "FLOP/s", 989_000_000_000_000),
    ],
)
def test_an_amount_is_read_as_it_is_written(text: str, unit: str, amount: int) -> None:
    assert parse_amount(text, unit) == amount  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "unit"),
    [("", ""), ("x", ""), ("1e999", ""), ("7Q", ""), ("1.", ""), ("7B/s", "B"), ("400Gb/s", "B/s"), ("9" * 400, "")],
)
def test_what_is_no_amount_is_refused_with_an_example(text: str, unit: str) -> None:
    with pytest.raises(UsageError, match=r"is no|is beyond") as caught:
        parse_amount(text, unit)  # type: ignore[arg-type]
    assert caught.value.cure


def test_a_duration_may_be_hours_and_zero_only_where_that_is_asked() -> None:
    assert parse_duration("1.5h") == 5_400 * 10**9
    assert parse_duration("2d") == 172_800 * 10**9
    assert parse_duration("0s", least_ns=0) == 0
    with pytest.raises(UsageError, match="is no duration"):
        parse_duration("0s")
