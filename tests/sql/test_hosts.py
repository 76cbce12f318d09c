"""Where ranks ran: what dumps and the topology say, which share a host, and which of those share a clock."""

from __future__ import annotations

import pytest

from evaluation import Row, answer


def recorded(*places: tuple[str | None, int | None, int | None], world_size: int | None = None) -> list[Row]:
    """Return ranks of these hosts, devices and numbers of devices, and others that no dump is of."""
    own = [
        {"rank": rank, "host": host, "device_index": device, "n_devices": n_devices, "is_recorded": True}
        for rank, (host, device, n_devices) in enumerate(places)
    ]
    return own + [{"rank": rank, "is_recorded": False} for rank in range(len(own), world_size or 0)]


ONE_OF_8 = ("one host", "each rank on its own of 8 devices")
UNKNOWN = (None, None)


@pytest.mark.parametrize(
    ("ranks", "hosts"),
    [
        # Names settle it, even where devices would allow one host.
        (recorded(("a", 0, 8), ("b", 1, 8)), [("a", "named"), ("b", "named")]),
        (recorded(("a", 0, 8), ("a", 1, 8)), [("a", "named"), ("a", "named")]),
        # None is named: each on a device of its own, of a host with room for the whole job.
        (recorded((None, 0, 8), (None, 1, 8)), [ONE_OF_8, ONE_OF_8]),
        (recorded((None, 0, 8), (None, 1, 8), world_size=8), [ONE_OF_8, ONE_OF_8]),
        # The job has more ranks than the host has devices.
        (recorded((None, 0, 8), (None, 1, 8), world_size=9), [UNKNOWN, UNKNOWN]),
        # By one rank's word the host has too few devices.
        (recorded((None, 0, 8), (None, 1, 1)), [UNKNOWN, UNKNOWN]),
        # Two ranks on device 0 may be on two hosts.
        (recorded((None, 0, 8), (None, 0, 8)), [UNKNOWN, UNKNOWN]),
        (recorded((None, None, 8), (None, None, 8)), [UNKNOWN, UNKNOWN]),
        # One name, not for every rank: all on the one host that devices allow, under one name.
        (recorded(("a", 0, 8), ("a", 1, 8), (None, 2, 8)), [ONE_OF_8, ONE_OF_8, ONE_OF_8]),
        (recorded(("a", 0, 8), (None, 0, 8)), [("a", "named"), UNKNOWN]),
        # Two names: the third may be on either.
        (recorded(("a", 0, 8), ("b", 1, 8), (None, 2, 8)), [("a", "named"), ("b", "named"), UNKNOWN]),
    ],
)
def test_ranks_are_on_one_host_where_names_or_devices_say_so(
    ranks: list[Row], hosts: list[tuple[str | None, str | None]]
) -> None:
    assert answer("_hosts", ranks=ranks) == [(rank, *host) for rank, host in enumerate(hosts)]


def test_a_rank_is_where_its_first_dump_says_and_the_topology_knows_better() -> None:
    # GIVEN rank 0 recorded twice, its dumps listed last first; rank 1 on a host that the topology names otherwise; of
    # rank 2 only a dump that could not be read; rank 3 as the largest world size says; and a world beyond belief.
    first = {"rank": 0, "host": "a", "device_index": 1, "device_name": "H100", "n_devices": 8, "process": 10}
    last = {"rank": 0, "host": "b", "device_index": 2, "device_name": "A100", "n_devices": 9, "process": 20}
    other = {"rank": 1, "host": "c", "device_index": 3, "device_name": "H100", "n_devices": 8, "process": 30}
    found = answer(
        "ranks",
        "rank, host, device_index, device_name, n_devices, process, rack, is_recorded",
        dumps=[
            {**last, "first_ns": 200, "world_size": 3},
            {**first, "first_ns": 100, "world_size": 4},
            {**other, "first_ns": 100, "world_size": 5},
            {"rank": 2, "host": "d", "error": "empty", "world_size": None},
        ],
        topology=[{"rank": 1, "host": "c.cluster", "node": None, "rack": "r7", "rail": None}],
        params=[{"largest_world": 4}],
    )
    assert found == [
        (0, "a", 1, "H100", 8, 10, None, True),
        (1, "c.cluster", 3, "H100", 8, 30, "r7", True),
        (2, None, None, None, None, None, None, False),
        (3, None, None, None, None, None, None, False),
    ]


def fit(rank: int, first_ns: float, last_ns: float, *, residual_ns: float = 0.0, group: str = "dp") -> Row:
    """Return a member whose clock is off by so much at the group's first anchor, at 0, and its last, at 1 s."""
    return {
        "group_id": group, "rank": rank, "shift_ns": first_ns, "slope": (last_ns - first_ns) / 1e9,
        "residual_ns": residual_ns, "first_x_ns": 0.0, "last_x_ns": 1e9,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fits", "is_shared"),
    [
        ([fit(0, 0, 0), fit(1, 100_000, 100_000)], True),  # 100 µs, as members of one host may be apart
        ([fit(0, 0, 0), fit(1, 100_001, 0)], False),  # more at the first anchor
        ([fit(0, 0, 0), fit(1, 0, 100_001)], False),  # more at the last
        ([fit(0, 0, 0), fit(1, -100_001, 0)], False),  # either way
        ([fit(0, 0, 0), fit(1, 120_000, 120_000, residual_ns=40_000)], True),  # three residuals
        ([fit(0, 0, 0, residual_ns=40_000), fit(1, 120_001, 120_001)], False),  # more than three of the largest
        ([fit(0, 0, 0, group="dp"), fit(1, 200_000, 200_000, group="tp")], True),  # no group has both
    ],
)
def test_ranks_of_a_host_share_a_clock_unless_a_groups_ends_say_otherwise(fits: list[Row], is_shared: bool) -> None:
    # GIVEN ranks 0 and 1 on host a; rank 2, of which nothing says where it is, is as far off as can be.
    found = answer(
        "_units",
        _hosts=[{"rank": 0, "host": "a"}, {"rank": 1, "host": "a"}, {"rank": 2}],
        _member_fits=[*fits, fit(2, 9e9, 9e9)],
        params=[{"shared_clock_ns": 1e5}],
    )
    assert found == [(0, 0, is_shared), (1, 0 if is_shared else 1, is_shared), (2, 2, False)]
