"""Names become files, ranks and a run's name; what is no regular file is never opened."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest

from longpole.discover import Candidate, find, rank_from_name, run_name
from longpole.errors import DumpError, LongpoleError, UsageError
from longpole.store import check_run_name


@contextmanager
def nobody() -> Iterator[None]:
    """Act as a user whom permissions hold back: the superuser is not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def inside(folder: Path, found: list[Candidate]) -> list[str]:
    return [c.name.removeprefix(f"{folder}/") for c in found]


@pytest.fixture(autouse=True)
def nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are looked at, never contents: opening a pipe would wait for ever."""

    def opened(*args: object, **options: object) -> None:
        pytest.fail(f"a file was opened: {args}")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem._open", opened)


# ---------------------------------------------------------------- files


def test_a_folder_gives_its_dumps_at_any_depth_in_order_of_name(tmp_path: Path) -> None:
    write(tmp_path, "rank=00001/b.json.gz", "rank=00000/a.json", "node/x/rank2.pt.trace.json", "c.parquet")
    write(tmp_path, "d.json.tmp", "e.json.gz.tmp", "UPPER.JSON", "timers.jsonl", "f3.jsonl.gz")
    write(tmp_path, "notes.txt", "job.py", "x.json.bak", "x.gz")
    assert inside(tmp_path, find([str(tmp_path)])) == [
        "UPPER.JSON",
        "c.parquet",
        "d.json.tmp",
        "e.json.gz.tmp",
        "f3.jsonl.gz",
        "node/x/rank2.pt.trace.json",
        "rank=00000/a.json",
        "rank=00001/b.json.gz",
        "timers.jsonl",
    ]


def test_hidden_files_and_the_answers_of_synth_are_no_dumps(tmp_path: Path) -> None:
    write(tmp_path, "rank0.json", "truth.json", "sub/truth.json", ".rank1.json", ".cache/rank2.json", "sub/.x/3.json")
    assert inside(tmp_path, find([str(tmp_path)])) == ["rank0.json"]
    assert inside(tmp_path, find([f"{tmp_path}/*.json"])) == ["rank0.json"]
    assert inside(tmp_path, find([f"{tmp_path}/truth.json"])) == ["truth.json"]


def test_a_hidden_folder_that_is_named_is_searched(tmp_path: Path) -> None:
    write(tmp_path, ".dumps/rank0.json")
    assert inside(tmp_path, find([f"{tmp_path}/.dumps"])) == [".dumps/rank0.json"]


def test_a_file_that_several_names_mean_is_found_once(tmp_path: Path) -> None:
    write(tmp_path, "a/rank0.json", "a/rank1.json")
    given = [f"{tmp_path}/a/rank1.json", f"{tmp_path}/a", f"{tmp_path}/a/*", f"file://{tmp_path}/a/rank0.json"]
    assert inside(tmp_path, find(given)) == ["a/rank0.json", "a/rank1.json"]


def test_a_file_given_by_name_is_known_from_one_found(tmp_path: Path) -> None:
    write(tmp_path, "a.json", "b.pt.trace.json", "rank3.json")
    found = find([str(tmp_path)])
    assert [c.is_named for c in found] == [False, False, False]
    assert [c.looks_like_dump for c in found] == [False, True, True]
    (named,) = find([f"{tmp_path}/a.json"])
    assert named.is_named
    assert named.looks_like_dump


def test_a_candidate_says_its_size_and_when_it_changed(tmp_path: Path) -> None:
    write(tmp_path, "rank0.json")
    (first,) = find([str(tmp_path)])
    assert first.n_bytes == 2
    assert first.url == f"file://{tmp_path}/rank0.json"
    (tmp_path / "rank0.json").write_text("{ }")
    os.utime(tmp_path / "rank0.json", ns=(1, 10**18))
    (later,) = find([f"{tmp_path}/rank0.json"])
    assert later.n_bytes == 3
    assert later.modified != first.modified


@pytest.mark.parametrize("pattern", ["*/rank?.json", "node[01]/*", "**/rank*.json", "node*"])
def test_a_pattern_gives_what_it_matches_folders_too(tmp_path: Path, pattern: str) -> None:
    write(tmp_path, "node0/rank0.json", "node1/rank1.json")
    assert inside(tmp_path, find([f"{tmp_path}/{pattern}"])) == ["node0/rank0.json", "node1/rank1.json"]


@pytest.mark.parametrize(
    "name",
    [
        "sp ace.json",
        "q'uo\"te.json",
        "\u00fc\u4e2d\U0001f600.json",
        "h#sh?q.json",
        "%41.json",
        "[1].json",
        "*.json",
        "-x.json",
    ],
)
def test_a_name_means_itself_whatever_is_in_it(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    for given in (f"{tmp_path}/{name}", str(tmp_path), f"file://{tmp_path}/{name}"):
        (found,) = find([given])
        assert found.name == f"{tmp_path}/{name}"
        assert fsspec.core.url_to_fs(found.url)[1] == f"{tmp_path}/{name}"


def test_a_name_with_a_line_break_stays_one_name(tmp_path: Path) -> None:
    write(tmp_path, "new\nline.json")
    assert inside(tmp_path, find([str(tmp_path)])) == [r"new\nline.json"]


def test_a_name_that_is_no_text_is_shown_escaped_and_still_opens(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/rank0_\xff.json"
    with open(path, "wb") as file:  # noqa: PTH123  a Path holds text
        file.write(b"{}")
    (found,) = find([str(tmp_path)])
    assert inside(tmp_path, [found]) == ["rank0_\\udcff.json"]
    assert os.fsencode(fsspec.core.url_to_fs(found.url)[1]) == path


def test_a_name_that_a_url_would_take_apart_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "ns::trace.json")
    for given in (str(tmp_path), f"{tmp_path}/ns::trace.json"):
        with pytest.raises(DumpError, match=r"ns::trace\.json has '::' in its name") as caught:
            find([given])
        assert caught.value.cure == "Rename it."


def test_links_to_files_are_followed_and_links_to_folders_are_not(tmp_path: Path) -> None:
    write(tmp_path, "a/rank0.json", "elsewhere/rank5.json")
    (tmp_path / "a" / "rank1.json").symlink_to(tmp_path / "elsewhere" / "rank5.json")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self.json").symlink_to(tmp_path / "a" / "self.json")
    (tmp_path / "a" / "nowhere.json").symlink_to(tmp_path / "nowhere.json")
    found = find([f"{tmp_path}/a"])
    assert inside(tmp_path, found) == ["a/rank0.json", "a/rank1.json"]
    assert [c.n_bytes for c in found] == [2, 2]


def test_a_link_to_a_folder_can_be_named(tmp_path: Path) -> None:
    write(tmp_path, "a/rank0.json")
    (tmp_path / "latest").symlink_to(tmp_path / "a")
    assert inside(tmp_path, find([f"{tmp_path}/latest"])) == ["latest/rank0.json"]


def test_pipes_sockets_and_devices_in_a_folder_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "rank0.json")
    os.mkfifo(tmp_path / "rank1.json")
    (tmp_path / "rank2.json").symlink_to("/dev/zero")
    (tmp_path / "rank3.json").symlink_to(tmp_path / "rank1.json")
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("rank4.json")
        assert inside(tmp_path, find([str(tmp_path)])) == ["rank0.json"]
        assert inside(tmp_path, find([f"{tmp_path}/rank*.json"])) == ["rank0.json"]


def test_a_pipe_or_a_device_that_is_named_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank1.json")
    for given in (f"{tmp_path}/rank1.json", "/dev/zero", "/dev/null", "file:///dev/zero"):
        with pytest.raises(DumpError, match="is neither a file nor a folder") as caught:
            find([given])
        assert given in caught.value.fact
        assert caught.value.cure == "A dump is a regular file."


# ---------------------------------------------------------------- refusals


def test_no_dumps_or_an_empty_name_is_no_request(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no dumps are given"):
        find([])
    with pytest.raises(UsageError, match="a name of a dump is empty"):
        find([str(tmp_path), ""])


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        ("no-such", "no-such does not exist"),
        ("no-such/", "no-such/ does not exist"),
        ("empty", "empty is a folder without dumps"),
        ("other", "other is a folder without dumps"),
        ("other/*.json", "other/*.json matches no file"),
        ("x" * 5000, "does not exist"),
    ],
)
def test_a_name_that_means_no_dump_is_an_error_with_a_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, fact: str
) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path, "other/notes.txt")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DumpError, match=re.escape(fact)) as caught:
        find([given])
    assert caught.value.cure


def test_a_url_of_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(UsageError, match="nosuchprotocol"):
        find(["nosuchprotocol://bucket/rank0.json"])


def test_a_folder_that_cannot_be_read_is_an_error_even_below_another(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only the superuser can act as another user here")
    for folder in (p for p in (tmp_path, *tmp_path.parents) if "pytest-of-" in str(p)):
        folder.chmod(0o755)
    write(tmp_path, "dumps/rank0.json", "dumps/secret/rank1.json")
    (tmp_path / "dumps" / "secret").chmod(0o700)
    with nobody():
        for given in (f"{tmp_path}/dumps/secret", f"{tmp_path}/dumps"):
            with pytest.raises(DumpError, match="dumps/secret cannot be read: Permission denied") as caught:
                find([given])
            assert caught.value.cure == "Make it readable."


def test_dumps_need_not_be_local() -> None:
    fs = fsspec.filesystem("memory")
    try:
        for name in ("rank0.json", "deep/rank1.json.gz", "truth.json", ".x/rank2.json", "notes.txt"):
            fs.pipe_file(f"/dumps-of-discover/{name}", b"{}")
        found = find(["memory://dumps-of-discover"])
        assert [c.url for c in found] == [
            "memory:///dumps-of-discover/deep/rank1.json.gz",
            "memory:///dumps-of-discover/rank0.json",
        ]
        assert [(c.n_bytes, c.name) for c in found] == [(2, c.url) for c in found]
        assert find(["memory://dumps-of-discover/*.json"])[0].url == found[1].url
        assert find(["memory://dumps-of-discover/rank0.json"])[0].is_named
        with pytest.raises(DumpError, match="memory://no-such-folder does not exist"):
            find(["memory://no-such-folder"])
    finally:
        fs.rm("/dumps-of-discover", recursive=True)


# ---------------------------------------------------------------- ranks


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        # of real runs
        ("nanogpt-8x-h100/Baseline-12-11-8ad3d-rank7-chrome-trace.json.gz", 7),
        ("nanogpt-8x-h100/Baseline-12-11-e049e-rank0-chrome-trace.json.gz", 0),
        ("torchrec-4x-v100/node0_21150.1698955063519804832.pt.trace.json.gz", None),
        ("dlrm-8x-v100/worker0_step_12.1694128201545.pt.trace.json.gz", 0),
        ("dlrm-8x-v100/worker7_step_12.1694128201553.pt.trace.json.gz", 7),
        ("megatron-tp8-a100/megatron_kineto_4.json.gz", 4),
        ("gloo-4x-cpu/rank3.step14.pt.trace.json.gz", 3),
        ("gloo-4x-cpu/rank0.step7.pt.trace.json.gz", 0),
        ("flight-recorder/ok/fr_rank_2.json", 2),
        ("nsys-recipe-4x-a100/proc3.nvtx_gpu_proj_trace.parquet", 3),
        ("nsys-2x/before.sqlite", None),
        ("straggler-whatif/ms-AR.json", None),
        ("single/rccl_mi300_rank0_of_8.json.gz", 0),
        ("single/cuda_graphs_rank0_of_16.json.gz", 0),
        ("single/nccl_args_rank0_of_2.json.gz", 0),
        ("single/hip_graph_421_kernels_one_launch.json.gz", None),
        ("single/kineto_2021_schema.pt.trace.json.gz", None),
        ("single/absolute_float_us.json.gz", None),
        ("single/h100_bert_small.json.gz", None),
        ("single/rank_missing.json.gz", None),
        ("single/simple_add.json.gz", None),
        ("single/cpu_only.json.gz", None),
        # as people spell it
        ("rank-3", 3),
        ("report_3.sqlite", 3),
        ("trace_rank5.rpd.gz", 5),
        ("12.db", 12),
        ("rank_003.json.gz", 3),
        ("rank=5.json", 5),
        ("rank.12.json", 12),
        ("Rank2.json", 2),
        ("xRANK2.json", None),
        ("trace_rank[4].json", None),
        ("profile_step100_rank7.json", 7),
        ("rank0.step14.json", 0),
        ("rank1_2026-01-02.json", 1),
        ("rank12_host_33.1694128201545.pt.trace.json", 12),
        ("world8_rank3.json", 3),
        ("local_rank3.json", 3),
        ("worker_3.json", 3),
        ("gpu-5_trace.json", 5),
        ("trace.0.json", 0),
        ("trace-17.pt.trace.json.gz.tmp", 17),
        ("trace_r3.json", 3),
        ("events_6.parquet", 6),
        ("0.json", 0),
        ("rank00016383.json", None),
        ("rank0016383.json", 16383),
        # of folders
        ("rank=00012/trace.json", 12),
        ("run/rank_7/step_100.json", 7),
        ("run/rank_7/deep/trace.json", 7),
        ("rank0/worker1.json", 1),
        ("node3/trace.json", None),
        # other numbers
        ("host_123.456.pt.trace.json", None),
        ("host_123.1694128201545.pt.trace.json.gz", None),
        ("20240101_trace.json", None),
        ("trace_20240101.json", None),
        ("trace_2024-01-15.json", None),
        ("trace_12-30-45.json", None),
        ("step_100.json", None),
        ("trace_step_100.json", None),
        ("iter-40.json", None),
        ("epoch_2.json", None),
        ("ranks_8.json", None),
        ("nranks8.json", None),
        ("resnet_r50_trace.json", None),
        ("trace.json", None),
        ("", None),
    ],
)
def test_a_rank_is_read_from_a_name_where_it_says_one(name: str, rank: int | None) -> None:
    assert rank_from_name(name) == rank
    if name:
        assert rank_from_name(f"/data/{name}") == rank
        assert rank_from_name(f"s3://bucket/{name}") == rank


def test_a_pattern_says_where_the_rank_is() -> None:
    assert rank_from_name("node_07/trace_3.json", r"node_(\d+)") == 7
    assert rank_from_name("a/b/0012.json", r"/(\d+)\.json$") == 12


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r"node_(\d+)", "finds no rank"),
        (r"trace", "finds no rank"),
        (r"(trace)", "finds no rank"),
        (r"trace(x)?", "finds no rank"),
        (r"(\u00b2)", "finds no rank"),
        (r"([0-9]{10})", "finds no rank"),
        (r"(", "is no regular expression"),
    ],
)
def test_a_pattern_that_finds_no_rank_is_an_error(pattern: str, what: str) -> None:
    with pytest.raises(LongpoleError, match=what):
        rank_from_name("trace\u00b2_1234567890.json", pattern)


# ---------------------------------------------------------------- names of runs


@pytest.mark.parametrize(
    ("dumps", "name"),
    [
        (["dumps/nightly-2117"], "nightly-2117"),
        (["dumps/nightly-2117/"], "nightly-2117"),
        (["s3://bucket/jobs/42"], "42"),
        (["s3://bucket"], "bucket"),
        (["one.pt.trace.json.gz"], "one"),
        (["a/b/one.json.tmp"], "one"),
        (["ONE.JSON"], "ONE"),
        (["events.parquet"], "events"),
        (["dumps/*.json"], "dumps"),
        (["dumps/rank*/trace.json"], "dumps"),
        (["dumps/run-7/node[0-3]"], "run-7"),
        (["dumps/rank0.json", "dumps/rank1.json"], "dumps"),
        (["dumps/node0", "dumps/node1"], "dumps"),
        (["dumps/node0/rank0.json", "dumps/node1/rank1.json"], "dumps"),
        (["/one", "/two"], "run"),
        (["/"], "run"),
        (["file:///"], "run"),
        (["my run (2)"], "my-run-2"),
        (["\u00e9t\u00e9"], "t"),
        (["\u4e2d\u6587"], "run"),
        (["..."], "run"),
        ([".hidden"], "hidden"),
        (["-rf"], "rf"),
        (["a;b|c$d`e'f\"g"], "a-b-c-d-e-f-g"),
        (["x" * 300], "x" * 128),
        ([".json.gz"], "run"),
        (["new\nline"], "new-line"),
    ],
)
def test_a_run_is_named_after_its_dumps(dumps: list[str], name: str) -> None:
    assert run_name(dumps) == name
    assert check_run_name(run_name(dumps)) == name


@pytest.mark.parametrize("given", [".", "./", "*.json", "./rank*.json"])
def test_dumps_of_the_working_folder_are_named_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    (tmp_path / "job-9" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "job-9")
    assert run_name([given]) == "job-9"
    monkeypatch.chdir(tmp_path / "job-9" / "sub")
    assert run_name([".."]) == "job-9"
