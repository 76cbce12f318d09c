"""README keeps its word: every command, view and dependency is in it, and its commands run as typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from unittest import mock

import pytest

from longpole import cli
from longpole.session import public_views

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    assert re.search(rf"^\| `longpole {command}\b", README, re.M)


@pytest.mark.parametrize("view", public_views())
def test_every_view_is_in_the_readme(view: str) -> None:
    assert re.search(rf"^\| `{view}` \|", README, re.M)


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=\[]", d)[0] for d in project["dependencies"]}
    rows = re.findall(r"^\| ([a-z0-9, -]+) \| ", README.partition("## Dependencies")[2].partition("\n## ")[0], re.M)
    told = {name.strip() for row in rows for name in row.split(",")} - {"dependency"}

    assert told == names


CLUSTERS = README.partition("## Scale and clusters")[2].partition("\n## ")[0]
SCRIPTS = re.findall(r"^```python\n(.+?)^```$", CLUSTERS, re.M | re.S)


@pytest.mark.parametrize(
    ("script", "module"), list(zip(SCRIPTS, ("dask_jobqueue", "dask_kubernetes.operator", "dask_gateway"), strict=True))
)
def test_the_scripts_for_clusters_give_the_command_what_it_takes(
    script: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their packages are not installed here: a stand-in gives an address, and takes the options of any cluster."""
    cluster = mock.MagicMock(scheduler_address="tcp://10.0.0.1:8786")
    cluster.__enter__.return_value = cluster
    parts = module.split(".")
    gateway = mock.MagicMock(new_cluster=lambda: cluster)
    for n in range(len(parts)):
        made = mock.MagicMock(
            SLURMCluster=lambda **_: cluster, KubeCluster=lambda **_: cluster, Gateway=lambda: gateway
        )
        monkeypatch.setitem(sys.modules, ".".join(parts[: n + 1]), made)
    command_line = mock.Mock(return_value=0)
    monkeypatch.setattr(cli, "main", command_line)

    with pytest.raises(SystemExit) as ended:
        exec(compile(script, "README.md", "exec"), {})  # noqa: S102  our own text

    assert ended.value.code == 0
    ((argv,), _) = command_line.call_args
    assert argv[0] == "run"
    command, bound, _ = cli.make_app("run").parse_args(argv, exit_on_error=False, print_error=False)
    assert command.__name__ == "run"
    if module == "dask_gateway":  # its client is this program's, whose credentials no address carries
        assert "cluster" not in bound.arguments
        cluster.get_client.assert_called_once_with()
    else:
        assert bound.arguments["cluster"].scheduler == "tcp://10.0.0.1:8786"


def _command(mark: str) -> str:
    (found,) = re.findall(rf"^<!-- {mark} -->\n```sh\n(.+)\n```$", README, re.M)
    return str(found)


def test_the_two_commands_are_the_two_commands() -> None:
    assert _command("run").startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert " && .venv/bin/longpole run fixtures/" in _command("run")
    assert _command("tests").endswith(".venv/bin/pytest")
    assert "README.md" in (ROOT / ".ci" / "run").read_text()


def test_the_tour_runs_as_typed(tmp_path: Path) -> None:
    tour = README.partition("## A quick tour")[2].partition("```sh\n")[2].partition("\n```")[0]
    lines = [line.partition("  #")[0].strip() for line in tour.splitlines()]
    assert len(lines) == 9
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "longpole").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m longpole "$@"\n')
    (tmp_path / "bin" / "longpole").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    script = "set -e\nlongpole synth training -o dumps/ --ranks 2 --steps 3 --gzip\n" + "\n".join(lines)

    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").exists()
    assert "rank_steps" in done.stdout
    assert "slow_step_ranks" in done.stdout
    assert "(the slowest of 3, 100 to 102) took " in done.stdout
