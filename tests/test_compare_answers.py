"""Runs whose difference is known, compared: on the terminal, as JSON and on the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from longpole import synth
from longpole.report import changes, compare, compare_page
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

FIXTURES = Path(__file__).parents[1] / "fixtures"
MS = 10**6


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("compare")
    made = Store(str(folder / "store"))
    for name in ("worked", "worked-contended", "worked-late-input", "cpu", "idle-causes"):
        make_run(made, name, [FIXTURES / name])
    for name, scenario, seed in (("one", "healthy", 0), ("two", "healthy", 1), ("slow", "slow-exchange", 0)):
        synth.write(scenario, folder / name, form="events", ranks=4, steps=20, seed=seed)
        make_run(made, name, [folder / name])
    return made


def compared(store: Store, baseline: str, run: str) -> compare.Comparison:
    with Session(store, [baseline, run]) as session:
        return compare.build(session.con, store.manifest(baseline), store.manifest(run))


def changed(found: compare.Comparison, dimension: str) -> dict[str, int]:
    """Return what changed beyond the noise, in ns."""
    return {part.item: part.change_ns for part in found.of(dimension) if part.is_changed}


CONTENDED = """\
worked-contended is slower than worked: a median step of 780.0 ms beside 750.0 ms, +30.0 ms (+4.0 %);\
 noise is up to 15.6 ms.
The part that changed most: compute +80.0 ms (+11.4 %). Cause: contention: kernels run slower beside communication\
 than alone, +80.0 ms in all.
Time of the window: compute +80.0 ms, exposed comm −50.0 ms.
Phases: backward +80.0 ms, sync −50.0 ms.
Critical path: compute +80.0 ms, comm −50.0 ms.
Kernels: sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32 +80.0 ms,\
 ncclDevKernel_AllReduce_Sum_f32…cclDevKernelArgsStorage<4096ul>) −50.0 ms.
Exposed collectives: all_reduce of 2 ranks in default_pg −50.0 ms.
Transfers: all_reduce of 2 ranks in default_pg −80.0 ms.
Ranks' own time: rank 0 +30.0 ms, rank 1 +30.0 ms.
Within noise: waits in collectives."""


def test_an_exchange_that_is_hidden_at_the_price_of_backward_is_slower_by_30_ms_for_contention(store: Store) -> None:
    found = compared(store, "worked", "worked-contended")

    assert changes.text(found) == CONTENDED
    assert (found.head.verdict, found.head.change_ns, found.head.change_ratio) == ("slower", 30 * MS, 0.04)
    assert (found.head.cause, found.head.contention_ns) == ("contention", 80 * MS)
    (kernel,) = found.contention
    # Six of eight calls run beside the exchange: 50 ms each as alone, then 60 five times and 80 once.
    assert (kernel.baseline_beside_ns, kernel.baseline_alone_ns, kernel.baseline_contention_ns) == (50 * MS, 50 * MS, 0)
    assert (kernel.beside_ns, kernel.alone_ns, kernel.contention_ns) == (63_333_333, 50 * MS, 80 * MS)


def test_the_other_way_round_it_is_faster_for_the_same_reason(store: Store) -> None:
    head = compared(store, "worked-contended", "worked").head

    assert (head.verdict, head.change_ns, head.cause, head.cause_ns) == ("faster", -30 * MS, "contention", -80 * MS)


def test_a_late_batch_is_idle_time_for_input(store: Store) -> None:
    found = compared(store, "worked", "worked-late-input")

    assert (found.head.verdict, found.head.change_ns) == ("slower", 80 * MS)
    assert (found.head.cause, found.head.cause_ns) == ("idle: input", 79_900_000)
    assert changed(found, "phase") == {}


def test_two_seeds_of_one_job_are_within_noise_in_every_part(store: Store) -> None:
    found = compared(store, "one", "two")

    assert found.head.verdict == "within noise"
    assert [part for part in found.parts if part.is_changed] == []
    assert changes.text(found).splitlines()[1] == "No part of the window changed beyond the noise."


def test_eight_per_cent_more_exposed_communication_is_said_and_where(store: Store) -> None:
    found = compared(store, "one", "slow")

    assert found.head.verdict == "within noise"
    assert (found.head.cause_item, found.head.cause) == ("exposed comm", "transfers")
    (exposed,) = (part for part in found.of("time") if part.is_changed)
    assert exposed.change_ratio == pytest.approx(0.08, abs=0.005)
    (transfer,) = (part for part in found.of("transfer") if part.is_changed)
    assert (transfer.item, round(transfer.change_ratio or 0, 2)) == ("all_reduce of 4 ranks in default_pg", 0.08)
    assert changed(found, "collective").keys() == {"all_reduce of 4 ranks in default_pg"}
    assert changed(found, "wait") == changed(found, "rank") == {}


def test_other_ranks_and_other_kernels_are_not_two_recordings_of_one_job(store: Store) -> None:
    found = compared(store, "worked", "one")
    lines = changes.text(found).splitlines()

    assert found.head.verdict == "not comparable"
    assert lines[0].startswith("one and worked are not two recordings of one job, so they only stand side by side: ")
    assert lines[1:3] == [
        "Careful: the job has 4 ranks, the baseline's 2.",
        "Careful: only 0 % of the kernels' time is in kernels that both have.",
    ]


def test_of_too_few_steps_the_change_is_said_and_no_verdict(store: Store) -> None:
    found = compared(store, "idle-causes", "idle-causes-again")

    assert (found.head.verdict, found.head.change_ns, found.head.noise_ns) == ("n/a: fewer than three steps", 0, None)
    assert changes.verdict(found.head).endswith("whether that is noise is not known: fewer than three steps.")


@pytest.fixture(scope="module", autouse=True)
def _again(store: Store) -> None:
    make_run(store, "idle-causes-again", [FIXTURES / "idle-causes"])
    other = '[run]\nworkload = "seven billion"\n'
    make_run(store, "worked-other", [FIXTURES / "worked"], config=other)
    make_run(store, "worked-one", [FIXTURES / "worked"], config='[run]\nworkload = "one billion"\n')


def test_two_names_of_a_workload_are_two_jobs_and_one_name_says_nothing(store: Store) -> None:
    assert compared(store, "worked", "worked-other").head.reasons == ()
    assert compared(store, "worked-one", "worked-other").head.reasons == (
        "its workload is seven billion, the baseline's one billion",
    )


def test_json_has_the_head_and_every_part(store: Store) -> None:
    told = json.loads(compare.json_text(compared(store, "worked", "worked-contended")))

    assert (told["baseline"], told["run"], told["verdict"], told["cause"]) == (
        "worked",
        "worked-contended",
        "slower",
        "contention",
    )
    phases = {part["item"]: part["change_ns"] for part in told["parts"] if part["dimension"] == "phase"}
    assert phases == {"backward": 80 * MS, "sync": -50 * MS, "forward": 0, "optimizer": 0}
    assert [row["change_ns"] for row in told["contention"]] == [80 * MS]


def test_the_page_says_what_the_terminal_says(store: Store) -> None:
    found = compared(store, "worked", "worked-contended")
    soup = BeautifulSoup(compare_page.render(found, tool_version="1.2.3"), "html.parser")
    summary = soup.select_one(".summary")

    assert summary is not None
    assert " ".join(summary.get_text(" ").split()) == " ".join(CONTENDED.splitlines()[:2])
    rows = [
        [" ".join(cell.get_text(" ").split()) for cell in row.find_all(["th", "td"])]
        for row in soup.select("#phase tr")
    ]
    assert rows[1] == ["backward", "400.000", "480.000", "+80.000", "+20.0 %", "+10.7 %", "9.600", "grew"]
    assert [section["id"] for section in soup.select("section")] == [
        *("steps", "time", "phase", "path", "kernel", "contention", "collective", "rank"),
    ]


def test_the_query_of_every_section_prints_rows(store: Store) -> None:
    found = compared(store, "worked", "worked-contended")

    with Session(store, ["worked", "worked-contended"]) as session:
        for section in compare_page.sections(found):
            assert session.sql(section.query).fetchall(), section.id
            assert set(section.views) <= set(session.views())


@pytest.mark.parametrize("pair", [("worked", "worked-contended"), ("worked", "cpu"), ("cpu", "idle-causes")])
def test_a_page_needs_nothing_else_and_is_the_same_bytes_again(store: Store, pair: tuple[str, str]) -> None:
    html = compare_page.render(compared(store, *pair), tool_version="1.2.3")

    assert html == compare_page.render(compared(store, *pair), tool_version="1.2.3")
    soup = BeautifulSoup(html, "html.parser")
    assert [
        tag for tag in soup.find_all(["img", "iframe", "link", "script"]) if tag.get("src") or tag.name == "img"
    ] == []
    assert {a["href"][0] for a in soup.find_all("a")} == {"#"}


def test_a_hostile_name_stays_text(tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)>'\"{{7*7}}"
    store = Store(str(tmp_path / "store"))
    for name, duration in (("a", 50), ("b", 90)):
        kernels = [
            {"ph": "X", "cat": "kernel", "name": hostile, "pid": 0, "tid": 7, "ts": 100 * n + 9, "dur": duration,
             "args": {"device": 0, "stream": 7, "correlation": n}}
            for n in range(1, 5)
        ]  # fmt: skip
        calls = [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 100 * n + 5,
             "dur": 1, "args": {"correlation": n}}
            for n in range(1, 5)
        ]  # fmt: skip
        ranges = [
            {"ph": "X", "cat": "user_annotation", "name": label, "pid": 9, "tid": 9, "ts": 100 * n, "dur": 99}
            for n in range(1, 5)
            for label in (f"ProfilerStep#{n}", "part")
        ]
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"schemaVersion": 1, "traceEvents": [*ranges, *calls, *kernels]})
        )
        make_run(store, name, [tmp_path / f"{name}.json"], config=f"[phases]\n{json.dumps(hostile)} = 'part'\n")

    html = compare_page.render(compared(store, "a", "b"), tool_version="1.2.3")

    soup = BeautifulSoup(html, "html.parser")
    assert soup.find("img") is None
    assert soup.select("#kernel tbody th")[0].get_text() == hostile
    assert "<img src=x" not in html
    assert "\\u003c/script\\u003e\\u003cimg" in html  # the phase's name among the rows of its chart
