"""Kernels beside comm and alone: the same call, the same shape."""

from typing import Any

from evaluation import analyzed, kernel, launch_call, link, rows, step

COMM: dict[str, Any] = {"comm_op": "allreduce", "name": "ncclDevKernel_AllReduce", "stream": 9}
FOUND = (
    "SELECT step, name, n_beside, beside_ns, n_alone, alone_ns, n_compared, contention_ns FROM kernel_contention"
    " ORDER BY step, name"
)


def test_calls_beside_comm_are_compared_with_the_mean_of_their_like_alone() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 400),
                *(launch_call(n, n) for n in (1, 2, 3, 4, 5, 6)),
                kernel(10, 30, launch=1),
                kernel(30, 70, launch=2),
                kernel(70, 120, launch=3),
                # Comm from 100 to 200: beside the call of 70 to 120, all of 120 to 170, and not beside that at 200.
                kernel(100, 200, launch=4, **COMM),
                kernel(120, 170, launch=5),
                kernel(200, 230, launch=6),
            ]
        )
    )

    # Alone 20, 40 and 30: 30 each. Beside comm 50 and 50.
    assert rows(con, FOUND) == [(1, "gemm", 2, 100, 3, 90, 2, 40)]


def test_other_shapes_are_no_likes_and_what_never_ran_alone_is_not_compared() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 400),
                *(launch_call(n, n) for n in (1, 2, 3, 4)),
                kernel(10, 20, launch=1, grid=[1, 1, 1], block=[64, 1, 1]),
                kernel(20, 120, launch=2, **COMM),
                kernel(30, 60, launch=3, grid=[8, 1, 1], block=[64, 1, 1]),
                kernel(60, 75, launch=4, grid=[1, 1, 1], block=[64, 1, 1]),
                kernel(300, 301, name="never_beside"),
            ]
        )
    )

    assert rows(con, FOUND) == [(1, "gemm", 2, 45, 1, 10, 1, 5)]


def test_without_a_like_the_contention_is_not_known() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 40),
                launch_call(1, 2),
                launch_call(3, 4),
                kernel(5, 30, launch=1, **COMM),
                kernel(6, 9, launch=3),
            ]
        )
    )

    assert rows(con, FOUND) == [(1, "gemm", 1, 3, 0, 0, 0, None)]
