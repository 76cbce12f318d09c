"""The clocks of work on a device that does one FLOP, or moves one byte, a nanosecond."""

from __future__ import annotations

from typing import Any

from evaluation import Row, answer

DEVICE: Row = {"device": "X", "dtype": "f16", "peak_flops": 1e9, "hbm_bytes_per_s": 1e9, "link_bytes_per_s": 1e9}

UNNAMED: Row = dict.fromkeys(DEVICE)


def gemm(name: str, duration: int, flops: int | None, n_bytes: int | None, **more: Any) -> Row:
    """Return a product, launched once; without FLOPs it is not counted, without bytes not sized."""
    return {
        "step": 1, "name": name, "kind": "compute", "kernel_class": "gemm", "dtype": "f16", "duration_ns": duration,
        "flops": flops, "n_bytes": n_bytes, "is_counted": flops is not None, "is_sized": n_bytes is not None,
        "n_launches": 1, **more,
    }  # fmt: skip


def moved(kind: str, name: str, duration: int, n_bytes: int | None) -> Row:
    """Return a copy, or a collective."""
    return gemm(name, duration, None, n_bytes, kind=kind, kernel_class=kind, dtype=None, is_counted=False)


def clocks(
    select: str, *calls: Row, grain: str = "step", device: Row = DEVICE, launch_ns: int = 0
) -> dict[str, tuple[Any, ...]]:
    """Return what is selected of the rows of that grain, by name; the step's is called step."""
    found = answer(
        "_clocks",
        f"grain, coalesce(name, kernel_class, 'step'), {select}",
        _activity_work=calls,
        _hardware=[device],
        _launch_cost=[{"launch_ns": launch_ns}],
        params=[{"shaped_ratio": 0.9, "peak_slack_ratio": 1.05, "largest_work": 1e18}],
    )
    return {name: tuple(rest) for of, name, *rest in found if of == grain}


def test_the_roofline_needs_both_peaks() -> None:
    call = gemm("a", 1_000, 500, 300)
    both = "compute_ns, memory_ns, floor_ns, reasons"

    assert clocks(both, call) == {"step": (500, 300, 500, [])}
    assert clocks(both, call, device={**DEVICE, "hbm_bytes_per_s": None}) == {
        "step": (500, None, None, ["memory bandwidth of X is not known"])
    }


def test_work_may_be_faster_than_the_peak_by_a_twentieth_and_by_no_more() -> None:
    found = clocks(
        "compute_ns, reasons", gemm("bound", 1_000, 1_050, 8), gemm("beyond", 1_000, 1_051, 8), grain="kernel"
    )

    assert found == {"bound": (1_050, []), "beyond": (None, ["faster than X can: its shapes or the device are wrong"])}


def test_whatever_is_known_of_work_on_a_device_that_no_dump_names_has_no_clock() -> None:
    found = clocks(
        "compute_ns, memory_ns, comm_ns, clock, reasons",
        gemm("product", 1_000, 500, None), moved("copy", "copy", 1_000, 500), moved("comm", "reduce", 1_000, 500),
        grain="kernel", device=UNNAMED, launch_ns=100,
    )  # fmt: skip

    unnamed = "no dump names the device"
    assert found == {
        "product": (None, None, None, None, [unnamed, "0 % of the time has sizes"]),
        "copy": (None, None, None, None, [unnamed]),
        "reduce": (None, None, None, None, [unnamed]),
    }


def test_one_call_whose_bandwidth_is_not_known_is_enough_to_say_so() -> None:
    """Launches took half of what each call did: they might lead, or not."""
    found = clocks(
        "clock, reasons",
        gemm("product", 1_000, 500, None), gemm("sized", 10_000, 500, 500),
        moved("copy", "copy", 1_000, 500), moved("comm", "reduce", 1_000, 500),
        device={**DEVICE, "hbm_bytes_per_s": None, "link_bytes_per_s": None}, launch_ns=500,
    )  # fmt: skip

    assert found == {"step": (None, ["memory bandwidth of X is not known", "link bandwidth of X is not known"])}


def test_launches_do_not_lead_work_whose_bandwidth_is_not_known() -> None:
    calls = [moved("copy", "copy", 1_000, 200), moved("comm", "reduce", 1_000, 200)]
    kernels: Row = {"grain": "kernel", "launch_ns": 500}

    assert clocks("clock", *calls, **kernels) == {"copy": ("overhead",), "reduce": ("overhead",)}
    no_memory = clocks("clock", *calls, **kernels, device={**DEVICE, "hbm_bytes_per_s": None})
    assert no_memory == {"copy": (None,), "reduce": ("overhead",)}
    no_link = clocks("clock", *calls, **kernels, device={**DEVICE, "link_bytes_per_s": None})
    assert no_link == {"copy": ("overhead",), "reduce": (None,)}


def test_sizes_are_counted_of_what_is_no_collective() -> None:
    """Half of 2,000 ns of a product and a copy; the collective took as long as both."""
    found = clocks(
        "reasons",
        gemm("product", 1_000, 500, 500), moved("copy", "copy", 1_000, None), moved("comm", "reduce", 2_000, 9),
    )  # fmt: skip

    assert found == {"step": (["50 % of the time has sizes"],)}


def test_a_clock_leads_where_what_is_unknown_took_less() -> None:
    """The product takes 900 ns by its FLOPs and 800 by its bytes; nothing says what the collective moved."""

    def beside(ns: int) -> dict[str, tuple[Any, ...]]:
        return clocks("clock, reasons", gemm("product", 1_000, 900, 800), moved("comm", "reduce", ns, None))

    unsized = ["sizes of collectives are not recorded"]
    assert beside(899) == {"step": ("compute", unsized)}
    assert beside(900) == {"step": (None, unsized)}


def test_the_longest_clock_of_a_step_whose_work_nearly_all_has_shapes_is_its_clock() -> None:
    """A twentieth has none, which is more than the 20 ns between the longest two, yet too little for a reason."""
    found = clocks(
        "clock, overlapped_ns, serial_ns, reasons",
        gemm("known", 950, 800, 780), gemm("unknown", 50, None, None), launch_ns=5,
    )  # fmt: skip

    assert found == {"step": ("compute", 800, 1_590, [])}


def test_a_bandwidth_at_which_work_takes_thirty_years_is_not_believed() -> None:
    """At a byte a second 10^9 bytes take 10^18 ns."""
    slow: Row = {**DEVICE, "hbm_bytes_per_s": 1.0, "link_bytes_per_s": 1.0}
    calls = [
        moved(kind, f"{kind} {n_bytes}", 1_000, n_bytes) for kind in ("copy", "comm") for n_bytes in (10**9, 10**9 - 1)
    ]

    below = 999_999_999 * 10**9
    columns = "memory_ns, comm_ns, clock, overlapped_ns, reasons"
    assert clocks(columns, *calls, grain="kernel", device=slow) == {
        "copy 1000000000": (
            None,
            None,
            None,
            None,
            ["so long in memory is not believed: bandwidth or sizes are wrong"],
        ),
        "copy 999999999": (below, None, "memory", below, []),
        "comm 1000000000": (
            None,
            None,
            None,
            None,
            ["so long on the link is not believed: bandwidth or sizes are wrong"],
        ),
        "comm 999999999": (None, below, "comm", below, []),
    }


def test_launches_lead_work_without_shapes_that_took_less_also_where_no_dump_names_the_device() -> None:
    unshaped = gemm("unknown", 1_000, None, None)
    for device in (UNNAMED, DEVICE):
        found = clocks("clock, reasons", unshaped, grain="kernel", device=device, launch_ns=1_001)
        assert found == {"unknown": ("overhead", ["0 % of compute time has shapes"])}
        assert clocks("clock", unshaped, grain="kernel", device=device, launch_ns=1_000) == {"unknown": (None,)}
