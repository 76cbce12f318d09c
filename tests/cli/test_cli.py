"""The command line as a person uses it: what it prints, what it returns, how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from longpole import cli
from longpole.cli import options
from pipeline_inline import inline

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working folder where tasks run in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LONGPOLE_STORE", raising=False)
    monkeypatch.setattr(options.Work, "runner", lambda self, what: inline)
    return tmp_path


def _call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = cli.main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def test_run_writes_the_page_and_prints_a_summary_with_the_step_time(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _call(capsys, "run", str(FIXTURES / "worked"), "-o", "page.html")

    assert code == 0
    assert (here / "page.html").read_text().lower().startswith("<!doctype html>")
    assert "worked: 2 of 2 ranks recorded, steps 10 to 13 (4)" in out
    assert "Each of the 4 steps takes 750.0 ms." in out
    assert "wrote page.html" in err


def test_the_two_halves_and_the_report_give_the_same_page_as_run(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dumps = str(FIXTURES / "worked")
    assert _call(capsys, "run", dumps, "--store", "one", "-o", "one.html")[0] == 0
    assert _call(capsys, "ingest", dumps, "--store", "two")[:2] == (0, "worked\n")
    assert _call(capsys, "analyze", "worked", "--store", "two")[:2] == (0, "worked\n")
    assert _call(capsys, "report", "worked", "--store", "two", "-o", "two.html")[0] == 0

    assert (here / "one.html").read_bytes() == (here / "two.html").read_bytes()
    facts = sorted(p.relative_to(here / "one") for p in (here / "one").rglob("*.parquet"))
    assert facts == sorted(p.relative_to(here / "two") for p in (here / "two").rglob("*.parquet"))
    assert all((here / "one" / p).read_bytes() == (here / "two" / p).read_bytes() for p in facts)


def test_a_second_run_changes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _call(capsys, "run", str(FIXTURES / "worked"))
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in (here / "longpole-store").rglob("*") if p.is_file()}

    code, _, _ = _call(capsys, "run", str(FIXTURES / "worked"))

    after = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in (here / "longpole-store").rglob("*") if p.is_file()}
    assert code == 0
    assert after == before


def test_query_prints_a_table_csv_json_and_parquet(here: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    cli.main(["run", str(FIXTURES / "worked")])
    capfdbinary.readouterr()
    sql = "SELECT step, duration_ns FROM steps WHERE step < 12 ORDER BY step"

    printed = {}
    for form in ("table", "csv", "json", "parquet"):
        assert cli.main(["query", sql, "--run", "worked", "--format", form]) == 0
        printed[form] = capfdbinary.readouterr().out

    assert printed["table"] == b"step  duration_ns\n  10    750000000\n  11    750000000\n"
    assert printed["csv"] == b"step,duration_ns\n10,750000000\n11,750000000\n"
    assert json.loads(printed["json"]) == [{"step": s, "duration_ns": 750_000_000} for s in (10, 11)]
    (here / "rows.parquet").write_bytes(printed["parquet"])
    import pyarrow.parquet as pq

    assert pq.read_table(here / "rows.parquet").to_pylist() == json.loads(printed["json"])


def test_query_of_no_rows_is_empty_and_fine(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _call(capsys, "run", str(FIXTURES / "worked"))

    assert _call(capsys, "query", "SELECT step FROM steps WHERE step < 0", "--format", "csv")[:2] == (0, "step\n")
    assert _call(capsys, "query", "SELECT step FROM steps WHERE step < 0", "--format", "json")[:2] == (0, "[\n]\n")


@pytest.mark.parametrize(
    ("sql", "code", "says"),
    [
        ("SELECT nothing FROM steps", 1, "longpole views NAME"),
        ("SELECT * FROM stepz", 1, "Views: collective_instances, collective_records, collectives, dumps"),
        ("SELEC 1", 1, "syntax error"),
        ("SELECT 1; SELECT 2", 2, "2 statements"),
        ("DROP VIEW steps", 2, "read-only"),
        ("COPY (SELECT 1) TO 'x.csv'", 2, "read-only"),
        ("SELECT * FROM read_text('/etc/hostname')", 1, "reads the views and nothing else"),
        ("", 2, "0 statements"),
        ("SELECT 1 AS a, 2 AS a", 2, "Name them apart with AS"),
        ("SELECT INTERVAL 1 MONTH AS i", 2, "Cast it"),
        ("SELECT 'infinity'::TIMESTAMP AS t", 1, "Cast its column to VARCHAR"),
    ],
)
def test_a_wrong_query_says_what_is_wrong_and_what_to_do(
    here: Path, capsys: pytest.CaptureFixture[str], sql: str, code: int, says: str
) -> None:
    _call(capsys, "run", str(FIXTURES / "worked"))

    found, out, err = _call(capsys, "query", sql, "--format", "csv")

    assert (found, out) == (code, "")
    assert says in err
    assert "Traceback" not in err
    assert not (here / "x.csv").exists()


def test_views_lists_every_view_and_describes_each(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _call(capsys, "views")
    names = [line.split()[0] for line in out.splitlines()]

    assert code == 0
    assert names == sorted(names)
    assert {"runs", "dumps", "events", "rank_captures", "rank_steps", "steps", "kernels", "run_coverage"} <= set(names)
    for name in names:
        code, out, _ = _call(capsys, "views", name)
        assert code == 0
        assert out.startswith("One row per")
    assert _call(capsys, "views", "rank_stepz")[0] == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html><body>login</body></html>", "HTML"),
        (b'{"schema": "1.0.3-chakra.0.0.4", "pid": 7, "nodes": [{"id": 1}]}', "execution trace"),
        (b"SQLite format 3\x00" + bytes(100), "SQLite"),
    ],
)
@pytest.mark.parametrize("command", ["run", "ingest", "inspect"])
def test_a_file_that_is_no_dump_is_named_with_what_it_is(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, content: bytes, says: str
) -> None:
    (here / "rank0.pt.trace.json").write_bytes(content)

    code, out, err = _call(capsys, command, "rank0.pt.trace.json")

    assert code == 1
    assert says.lower() in (out + err).lower()
    assert "rank0.pt.trace.json" in out + err
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["run", "absent.json"], "absent.json does not exist"),
        (["run", "empty"], "without dumps"),
        (["analyze", "absent"], "there is no run 'absent'"),
        (["report", "absent"], "there is no run 'absent'"),
        (["query", "SELECT 1"], "holds no runs"),
        (["check", "../up"], "cannot name a run"),
        (["run", str(FIXTURES / "worked"), "--name", "a/b"], "cannot name a run"),
        (["run", str(FIXTURES / "worked"), "--config", "absent.toml"], "absent.toml cannot be read"),
        (["run", str(FIXTURES / "worked"), "-o", "no/such/page.html"], "does not exist"),
        (["run", str(FIXTURES / "worked"), "--rank-from", "node_(\\d+)"], "finds no rank in"),
        (["run", str(FIXTURES / "worked"), "--memory", "much"], "is no size"),
    ],
)
def test_a_wrong_request_says_so_without_a_traceback(
    here: Path, capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    (here / "empty").mkdir()

    code, _, err = _call(capsys, *argv)

    assert code in (1, 2)
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "argv", [["rnu"], ["run"], ["run", "x", "--no-such-option"], ["report", "x", "--kind", "moon"]]
)
def test_wrong_usage_exits_2(here: Path, capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    code, _, err = _call(capsys, *argv)

    assert code == 2
    assert err.startswith("longpole: ")
    assert "--help" in err


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_every_command_has_help_with_an_example(here: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = _call(capsys, command, "--help")

    assert code == 0
    assert f"Example: longpole {command}" in out


def test_a_page_does_not_overwrite_another_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "notes.html").write_text("mine")

    code, _, err = _call(capsys, "run", str(FIXTURES / "worked"), "-o", "notes.html")

    assert (code, (here / "notes.html").read_text()) == (1, "mine")
    assert "--force" in err
    assert _call(capsys, "run", str(FIXTURES / "worked"), "-o", "notes.html", "--force")[0] == 0


def test_check_prints_each_rule(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _call(capsys, "run", str(FIXTURES / "worked"))

    code, out, _ = _call(capsys, "check", "worked")

    assert code == 0
    assert out.splitlines()[0] == "ok      a window is the sum of its parts"


def test_inspect_says_what_a_dump_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _call(capsys, "inspect", str(FIXTURES / "worked" / "rank0.pt.trace.json.gz"))

    assert code == 0
    assert "rank      0 of 2" in out
    assert "steps     10-13 (4)" in out
    assert not (here / "longpole-store").exists()


def test_a_users_marker_and_kernels_come_from_run_toml(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "run.toml").write_text("[steps]\nmarker = 'Optimizer.step#(\\d+)'\n[comm]\nkernels = ['^gemm']\n")

    code, _, err = _call(capsys, "run", str(FIXTURES / "worked"), "--config", "run.toml")
    assert code == 0, err
    kept = (here / "longpole-store" / "runs" / "worked" / "config.toml").read_text()
    assert "Optimizer.step" in kept

    (here / "run.toml").write_text("[stepz]\nmarker = 'x'\n")
    code, _, err = _call(capsys, "run", str(FIXTURES / "worked"), "--config", "run.toml")
    assert code == 1
    assert "[stepz]" in err
    assert "[steps]" in err


def test_a_closed_pipe_is_no_error(here: Path) -> None:
    command = f"{sys.executable} -m longpole views | head -1"

    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)

    assert done.stderr == ""
    assert done.stdout.startswith("collective_instances")


def test_run_on_a_real_local_cluster(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "longpole", "run", str(FIXTURES / "worked"), "-o", "page.html"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert "Each of the 4 steps takes 750.0 ms." in done.stdout
    assert (tmp_path / "page.html").stat().st_size > 100_000


def test_run_on_a_named_scheduler_gives_the_same_bytes(tmp_path: Path) -> None:
    environment = {**os.environ, "DASK_DISTRIBUTED__WORKER__DAEMON": "false"}
    scheduler_file = tmp_path / "scheduler.json"

    def start(module: str, *argv: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", str(scheduler_file)]
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--no-dashboard", *argv],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
            env=environment,
        )

    def run(name: str, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "longpole",
                "run",
                str(FIXTURES / "cpu"),
                "--store",
                name,
                "-o",
                f"{name}.html",
                *argv,
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )

    scheduler = start("dask_scheduler", "--port", "0")
    workers = [start("dask_worker", "--nthreads", "1", "--local-directory", str(tmp_path / f"w{n}")) for n in range(2)]
    try:
        for _ in range(300):
            if scheduler_file.exists():
                break
            time.sleep(0.1)
        done = [run("cluster", "--scheduler-file", str(scheduler_file)), run("local")]
        assert [d.returncode for d in done] == [0, 0], [d.stderr for d in done]
    finally:
        for process in (*workers, scheduler):
            process.send_signal(signal.SIGTERM)
        for process in (*workers, scheduler):
            process.wait(timeout=30)
    assert (tmp_path / "cluster.html").read_bytes() == (tmp_path / "local.html").read_bytes()
    made = {
        store: {p.relative_to(tmp_path / store): p.read_bytes() for p in (tmp_path / store).rglob("*") if p.is_file()}
        for store in ("cluster", "local")
    }
    assert made["cluster"] == made["local"]


def test_completion_knows_every_command_and_its_options() -> None:
    script = cli.make_app().generate_completion(shell="bash")  # noqa: S604 - no process: whose completion it is

    assert all(command in script for command in cli.COMMANDS)
    assert "--fix-rank" in script


def test_completion_is_installed_by_one_option(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(here))
    monkeypatch.setenv("BASH_VERSION", "5.2")
    monkeypatch.delenv("ZSH_VERSION", raising=False)

    assert cli.main(["--install-completion"]) == 0
    assert "longpole" in (here / ".local/share/bash-completion/completions/longpole").read_text()
    assert "installed" in capsys.readouterr().out
