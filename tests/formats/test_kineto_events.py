"""What becomes a row, what is left out and what a row says: one small dump for each."""

from __future__ import annotations

from typing import Any

import pytest

from formats.reading import Row, dump, event, names, read, said


def test_a_kernel_becomes_a_row_with_what_its_arguments_say() -> None:
    rows, facts = read(
        dump(
            {
                "ph": "X",
                "cat": "kernel",
                "name": "ncclDevKernel_AllReduce",
                "pid": 4,
                "tid": 37,
                "ts": 6322354264461.309,
                "dur": 489.144,
                "args": {
                    "External id": 9,
                    "device": 4,
                    "context": 2,
                    "stream": 37,
                    "correlation": 37808,
                    "grid": [24, 1, 1],
                    "block": [544, 2, 1],
                    "blocks per SM": 0.181818,
                    "Collective name": "allreduce",
                    "dtype": "BFloat16",
                    "In msg nelems": 100,
                    "Out msg nelems": 101,
                    "Process Group Name": "0",
                    "Process Group Description": "default_pg",
                    "Process Group Ranks": "[0, 1]",
                    "Group size": 2,
                    "Seq": 5,
                    "graph node id": 77,
                    "Src Rank": 3,
                    "Dst Rank": 5,
                },
            }
        )
    )
    assert [said(row) for row in rows] == [
        {
            "category": "kernel",
            "name": "ncclDevKernel_AllReduce",
            "start_ns": 6322354264461309,
            "duration_ns": 489144,
            "device": 4,
            "stream": 37,
            "process": 4,
            "thread": 37,
            "correlation_id": 37808,
            "external_id": 9,
            "context": 2,
            "grid": [24, 1, 1],
            "block": [544, 2, 1],
            "comm_op": "allreduce",
            "comm_dtype": "BFloat16",
            "comm_in_elements": 100,
            "comm_out_elements": 101,
            "comm_group": "0",
            "comm_group_description": "default_pg",
            "comm_group_ranks": "[0, 1]",
            "comm_group_size": 2,
            "comm_seq": 5,
            "graph_node_id": 77,
            "comm_source_rank": 3,
            "comm_target_rank": 5,
        }
    ]
    assert facts.n_events == 1


def test_host_copy_and_sync_rows_say_what_their_arguments_say() -> None:
    rows, _ = read(
        dump(
            event("aten::mm", cat="cpu_op", args={"External id": 3, "Sequence number": 54, "Fwd thread id": 1}),
            event("Memcpy HtoD", cat="gpu_memcpy", args={"bytes": 4096, "device": 0, "stream": 7, "context": 1}),
            event(
                "Stream Wait Event",
                cat="cuda_sync",
                args={
                    "wait_on_stream": 20,
                    "wait_on_cuda_event_id": 3,
                    "wait_on_cuda_event_record_corr_id": 500,
                },
            ),
        )
    )
    common = {"start_ns": 1000, "duration_ns": 2000, "process": 0, "thread": 7}
    assert [said(row) for row in rows] == [
        {
            "category": "cpu_op",
            "name": "aten::mm",
            **common,
            "external_id": 3,
            "sequence_id": 54,
            "forward_thread": 1,
        },
        {
            "category": "memcpy",
            "name": "Memcpy HtoD",
            **common,
            "device": 0,
            "stream": 7,
            "context": 1,
            "n_bytes": 4096,
        },
        {
            "category": "sync",
            "name": "Stream Wait Event",
            **common,
            "wait_stream": 20,
            "wait_event_id": 3,
            "wait_correlation_id": 500,
        },
    ]


@pytest.mark.parametrize(
    ("spelling", "category"),
    [
        ("kernel", "kernel"),
        ("Kernel", "kernel"),
        ("gpu_memcpy", "memcpy"),
        ("Memcpy", "memcpy"),
        ("gpu_memset", "memset"),
        ("Memset", "memset"),
        ("cuda_sync", "sync"),
        ("cuda_runtime", "runtime"),
        ("Runtime", "runtime"),
        ("hip_runtime", "runtime"),
        ("cuda_driver", "driver"),
        ("cpu_op", "cpu_op"),
        ("Operator", "cpu_op"),
        ("user_annotation", "annotation"),
        ("gpu_user_annotation", "gpu_annotation"),
        ("overhead", "overhead"),
        ("Trace", "trace"),
        ("MTIA_ccp_events", "mtia_ccp_events"),
    ],
)
def test_a_category_has_one_name_however_a_generation_spells_it(spelling: str, category: str) -> None:
    rows, _ = read(dump(event(cat=spelling)))
    assert [row["category"] for row in rows] == [category]


def test_spellings_of_one_category_share_one_entry_of_its_dictionary() -> None:
    import io

    import pyarrow as pa

    from longpole.formats import ReadOptions
    from longpole.formats.kineto import KinetoReader

    batches: list[pa.Table] = []
    text = dump(event(cat="Kernel"), event(cat="kernel"), event(cat="concurrent_kernel"))
    KinetoReader().read(io.BytesIO(text.encode()), "d.json", batches.append, ReadOptions())
    assert batches[0]["category"].chunk(0).dictionary.to_pylist() == ["kernel"]


def test_only_complete_events_are_stored_and_the_others_counted_by_what_they_are() -> None:
    rows, facts = read(
        dump(
            event("a"),
            {"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g"},
            {"ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": 1, "cat": "ac2g", "name": "ac2g", "bp": "e"},
            {"ph": "t", "id": 1, "pid": 0, "tid": 7, "ts": 1, "cat": "ac2g", "name": "ac2g"},
            {"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "tid": 0, "args": {"name": "python"}},
            {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 3, "args": {"Addr": 8}},
            {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 9},
            {"ph": "C", "name": "GPU 0 Utilization", "pid": 0, "tid": 0, "ts": 1, "args": {"": 5}},
            {"ph": "B", "name": "x", "pid": 0, "tid": 0, "ts": 1},
            {"ph": "E", "name": "x", "pid": 0, "tid": 0, "ts": 1},
            {"ph": "b", "name": "x", "pid": 0, "tid": 0, "ts": 1},
            {"ph": "N", "name": "x", "pid": 0, "tid": 0, "ts": 1},
            event("b", cat="python_function"),
        )
    )
    assert names(rows) == ["a"]
    assert facts.skipped == (
        ("async", 1),
        ("begin or end", 2),
        ("counter", 1),
        ("flow", 3),
        ("instant", 1),
        ("memory", 1),
        ("metadata", 1),
        ("other", 1),
        ("python", 1),
    )
    assert (facts.n_events, facts.n_stored, facts.n_skipped, facts.n_dropped) == (13, 1, 12, 0)


@pytest.mark.parametrize("tid", [1, "main"])  # text sends the block down to the engine of mixed types
def test_an_allocation_is_an_instant_with_its_size_its_device_and_the_totals(tid: object) -> None:
    def memory(ts: int, **args: Any) -> Row:
        return {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": tid, "ts": ts, "args": args}

    rows, facts = read(
        dump(
            event("k", args={"device": 3, "bytes": 7, "Device Type": 1}),
            memory(
                1,
                **{
                    "Bytes": 512,
                    "Device Type": 1,
                    "Device Id": 2,
                    "Total Allocated": 2**40,
                    "Total Reserved": 2**41,
                    "Addr": 2**64 - 1,
                },
            ),
            memory(2, **{"Bytes": -512, "Device Type": 1, "Device Id": 2}),
            memory(3, **{"Bytes": 8, "Device Type": 0, "Device Id": -1, "Total Allocated": 8, "Total Reserved": 0}),
            memory(4, **{"Total Allocated": 8}),
            event("[memory]", args={"Bytes": 5}),
        )
    )
    shown = ("category", "start_ns", "duration_ns", "device", "n_bytes", "allocated_bytes", "reserved_bytes")
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("kernel", 1_000, 2_000, 3, 7, None, None),
        ("memory", 1_000, 0, 2, 512, 2**40, 2**41),
        ("memory", 2_000, 0, 2, -512, None, None),
        ("memory", 3_000, 0, None, 8, 8, 0),
        ("kernel", 1_000, 2_000, None, None, None, None),
    ]
    assert facts.skipped == (("memory", 1),)
    assert (facts.n_stored, facts.n_bad_times) == (5, 0)


def test_python_frames_are_kept_when_asked_for() -> None:
    rows, facts = read(dump(event("f", cat="python_function")), keep_python=True)
    assert [(row["category"], row["name"]) for row in rows] == [("python", "f")]
    assert facts.skipped == ()


def test_correlation_zero_is_none() -> None:
    rows, _ = read(dump(event(args={"correlation": 0}), event(args={"correlation": 5})))
    assert [row["correlation_id"] for row in rows] == [None, 5]


def test_text_where_a_process_or_thread_number_belongs_is_the_label() -> None:
    rows, _ = read(
        dump(
            event("a", pid="Spans", tid="PyTorch Profiler", cat="Trace"),
            event("b", pid=25738, tid="stream 7", cat="Kernel"),
            event("c", pid="25738", tid="25739"),
            event("d", pid=-1, tid=0),
            event("e", pid="", tid=""),
        )
    )
    assert [(row["process"], row["thread"], row["label"]) for row in rows] == [
        (None, None, "Spans"),
        (25738, None, "stream 7"),
        (25738, 25739, None),
        (-1, 0, None),
        (None, None, ""),
    ]


def test_the_schema_of_2021_is_read_with_its_own_spellings() -> None:
    rows, facts = read(
        dump(
            {
                "ph": "X",
                "cat": "Operator",
                "name": "ProfilerStep#3",
                "pid": 25738,
                "tid": "25738",
                "ts": 1623142623460111,
                "dur": 25,
                "args": {"Device": 25738, "External id": 2, "Fwd thread id": 0, "Sequence number": 9},
            },
            {
                "ph": "X",
                "cat": "Kernel",
                "name": "k",
                "pid": 0,
                "tid": "stream 7",
                "ts": 1623142623460200,
                "dur": 4,
                "args": {"device": 0, "stream": 7, "correlation": 33, "external id": 2},
            },
        )
    )
    assert [said(row) for row in rows] == [
        {
            "category": "cpu_op",
            "name": "ProfilerStep#3",
            "start_ns": 1623142623460111000,
            "duration_ns": 25000,
            "process": 25738,
            "thread": 25738,
            "external_id": 2,
            "sequence_id": 9,
            "forward_thread": 0,
        },
        {
            "category": "kernel",
            "name": "k",
            "start_ns": 1623142623460200000,
            "duration_ns": 4000,
            "device": 0,
            "stream": 7,
            "process": 0,
            "label": "stream 7",
            "correlation_id": 33,
            "external_id": 2,
        },
    ]
    assert facts.schema == "kineto 2021"


def test_a_group_without_a_name_is_known_by_its_id() -> None:
    rows, _ = read(
        dump(event(args={"Process Group ID": 3}), event(args={"Process Group ID": 3, "Process Group Name": "tp"}))
    )
    assert [row["comm_group"] for row in rows] == ["3", "tp"]


def test_a_cpu_op_keeps_the_stream_it_was_given() -> None:
    rows, _ = read(dump(event("triton_red_fused", cat="cpu_op", args={"stream": 0})))
    assert [(row["category"], row["stream"], row["device"]) for row in rows] == [("cpu_op", 0, None)]


def test_rows_keep_the_order_of_the_file_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from longpole.formats import blocks

    monkeypatch.setattr(blocks, "BLOCK_BYTES", 512)
    text = dump(*(event(f"k{n}", ts=1000 - n) for n in range(500)))
    for threads in (1, 2, 5):
        rows, _ = read(text, threads=threads)
        assert names(rows) == [f"k{n}" for n in range(500)]


def test_a_batch_has_enough_rows_for_a_row_group_and_a_table_its_own_dictionary() -> None:
    import io

    import pyarrow as pa

    from longpole.formats import ReadOptions
    from longpole.formats.kineto import KinetoReader

    batches: list[pa.Table] = []
    text = "[" + ",".join(f'{{"ph":"X","pid":1,"name":"n{n % 7}","ts":{n},"dur":1}}' for n in range(250_000)) + "]"
    KinetoReader().read(io.BytesIO(text.encode()), "d.json", batches.append, ReadOptions(threads=2))
    assert sum(batch.num_rows for batch in batches) == 250_000
    assert all(100_000 <= batch.num_rows <= 200_000 for batch in batches[:-1])
    for batch in batches:
        assert all(chunk.dictionary.equals(batch["name"].chunk(0).dictionary) for chunk in batch["name"].chunks)


def test_a_sink_that_fails_stops_the_reading() -> None:
    import io

    from longpole.formats import ReadOptions
    from longpole.formats.kineto import KinetoReader

    def full(_: object) -> None:
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        KinetoReader().read(io.BytesIO(dump(event()).encode()), "d.json", full, ReadOptions())
