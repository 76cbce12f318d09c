"""The breakdown of random activities equals a plain interval count, in every window."""

from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation import analyzed, kernel, launch_call, link, rows, step

SPANS = st.lists(st.tuples(st.integers(0, 399), st.integers(0, 60), st.integers(0, 2), st.integers(0, 3)), max_size=25)


def _count(start: int, end: int, spans: list[tuple[int, int, int]]) -> tuple[int, int, int, int]:
    """Return compute, exposed comm, exposed copies and idle of [start, end), a nanosecond at a time."""
    parts = [0, 0, 0, 0]
    for t in range(start, end):
        kinds = [kind for a, b, kind in spans if a <= t < b]
        parts[min(kinds, default=3)] += 1
    return parts[0], parts[1], parts[2], parts[3]


@settings(max_examples=40, deadline=None)
@given(SPANS)
def test_the_breakdown_is_the_plain_count_in_every_window(spans: list[tuple[int, int, int, int]]) -> None:
    # GIVEN three steps that each launch what starts at or after their marker
    markers = [(1, 0, 100), (2, 100, 250), (3, 250, 400)]
    raw = [step(n, a, b) for n, a, b in markers]
    raw += [launch_call(t, t + 1) for t in sorted({a for a, _, _, _ in spans})]
    for start, length, kind, stream in spans:
        row = kernel(start, start + length, launch=start, stream=stream)
        if kind == 1:
            row |= {"comm_op": "allreduce"}
        elif kind == 2:
            row |= {"category": "memcpy"}
        raw.append(row)

    con = analyzed(link(raw))

    found = rows(
        con,
        "SELECT step, start_ns, end_ns, compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns, idle_input_ns"
        " + idle_sync_ns + idle_host_ns + idle_launch_ns + idle_turnaround_ns + idle_other_ns"
        " FROM rank_windows ORDER BY step",
    )
    flat = [(a, a + d, k) for a, d, k, _ in spans]
    assert [r[0] for r in found] == [1, 2, 3]
    done = 0
    for (number, host_start, host_end), parts in zip(markers, found, strict=True):
        ends = [a + d for a, d, _, _ in spans if host_start <= a < host_end]
        done = max(done, max(ends, default=host_end))
        assert parts[2] == done, number
        assert parts[3:7] == _count(parts[1], parts[2], flat)
        assert parts[6] == parts[7]
    busy = rows(con, "SELECT coalesce(sum(exposed_ns), 0) FROM kernels")[0][0]
    assert busy == sum(any(a <= t < b for a, b, _ in flat) for t in range(500))
