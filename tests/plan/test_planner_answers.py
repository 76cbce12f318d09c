"""What a run would take, each answer worked out by hand beforehand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.errors import LongpoleError
from longpole.plan.buckets import Exchange, Served, best_bucket, gradient_queue, queue
from longpole.plan.clocks import Clocks, Machine, decode, layer_params, matmul, ridge, training
from longpole.plan.duration import Duration, Job, Losses, duration, update
from longpole.plan.exchange import LinkTime, all_reduce, ring_bytes
from longpole.plan.memory import Devices, States, activations, kv_cache, least_devices, states
from longpole.plan.pipeline import bubble
from longpole.presets import device, model

H100 = Machine(peak_flops_per_s=989e12, hbm_bytes_per_s=3.35e12)
MS = 10**6


def days(seconds: float) -> float:
    return round(seconds / 86_400, 2)


def seven_billion(mfu_ratio: float, losses: Losses = Losses()) -> Duration:  # noqa: B008  frozen
    return duration(Job(7 * 10**9, 100 * 10**9, 64, 300e12, mfu_ratio, losses))


def test_an_update_takes_the_tokens_of_all_its_microbatches() -> None:
    found = update(data_parallel=4, sequences=2, accumulation=8, seq_len=2048)
    assert (found.tokens, found.microbatch_tokens) == (131_072, 4_096)


def test_the_duration_follows_from_six_flops_for_each_parameter_and_token() -> None:
    found = seven_billion(0.4)
    assert found.model_flops == 4_200_000_000_000_000_000_000
    assert found.useful_flops_per_s == 7.68e15
    assert found.training_s == found.wall_s == 546_875
    assert found.training_ratio == 1


@pytest.mark.parametrize(("mfu_ratio", "wanted"), [(0.4, 6.33), (0.2, 12.66), (0.5, 5.06)])
def test_half_the_mfu_takes_twice_as_long(mfu_ratio: float, wanted: float) -> None:
    assert days(seven_billion(mfu_ratio).wall_s) == wanted


def test_what_a_run_loses_comes_on_top_and_adds_up() -> None:
    # 546,875 s hold 151 hours: 151 checkpoints of 30 s and 75 evaluations of 120 s. A failure every 10,000 s costs a
    # restart of 200 s and half an hour of training, a fifth: the rest is 80 % of the running time.
    losses = Losses(
        downtime_s=3_600,
        evaluation_s=120,
        evaluation_every_s=7_200,
        checkpoint_s=30,
        checkpoint_every_s=3_600,
        restart_s=200,
        failure_every_s=10_000,
    )
    found = seven_billion(0.4, losses)
    assert (found.n_checkpoints, found.checkpoint_s) == (151, 4_530)
    assert (found.n_evaluations, found.evaluation_s) == (75, 9_000)
    assert round(found.failure_s, 6) == 140_101.25
    assert round(found.n_failures, 6) == 70.050625
    assert found.downtime_s == 3_600
    assert round(found.wall_s, 6) == 704_106.25


def test_failures_that_cost_more_than_the_time_between_them_let_no_run_end() -> None:
    losses = Losses(restart_s=600, checkpoint_every_s=3_600, failure_every_s=2_400)
    with pytest.raises(LongpoleError, match="lets no run end"):
        seven_billion(0.4, losses)


@pytest.mark.parametrize(
    ("losses", "cure"),
    [
        (Losses(checkpoint_s=30), "Give --checkpoint-every too."),
        (Losses(evaluation_s=30), "Give --evaluation-every too."),
        (Losses(restart_s=30), "Give --failure-every too."),
        (Losses(failure_every_s=30), "Give --checkpoint-every too."),
    ],
)
def test_a_loss_without_its_frequency_is_refused(losses: Losses, cure: str) -> None:
    with pytest.raises(LongpoleError) as caught:
        seven_billion(0.4, losses)
    assert caught.value.cure == cure


def test_three_billion_parameters_keep_48_gb() -> None:
    assert states(3 * 10**9) == States(
        param_bytes=16,
        weights_bytes=6_000_000_000,
        gradients_bytes=6_000_000_000,
        moments_bytes=24_000_000_000,
        master_bytes=12_000_000_000,
        total_bytes=48_000_000_000,
    )


@pytest.mark.parametrize(
    ("optimizer", "precision", "wanted"),
    [
        ("adam", "mixed", 16),
        ("adam", "mixed-fp32-gradients", 18),
        ("adam", "fp32", 16),
        ("adam", "bf16", 8),
        ("momentum", "mixed", 12),
        ("sgd", "fp32", 8),
    ],
)
def test_optimizer_and_precision_say_the_bytes_of_a_parameter(optimizer: str, precision: str, wanted: int) -> None:
    assert states(1, optimizer, precision).total_bytes == wanted  # type: ignore[arg-type]


def test_70_billion_parameters_need_two_nodes_of_80_gb_devices() -> None:
    total = states(70_500_000_000).total_bytes
    assert total == 1_128_000_000_000
    assert least_devices(total, device_bytes=80_000_000_000) == Devices(n_devices=15, n_in_nodes=16)


def test_a_device_that_is_just_full_is_enough() -> None:
    assert least_devices(160, device_bytes=20) == Devices(8, 8)
    assert least_devices(161, device_bytes=20, node_devices=4) == Devices(9, 12)


def test_activations_with_and_without_flash_attention() -> None:
    found = activations(batch=1, seq_len=8_192, hidden=8_192, heads=64, layers=80)
    assert found.layer_bytes == 2_281_701_376
    assert found.total_bytes == 182_536_110_080
    assert found.layer_attention_bytes == 21_474_836_480
    assert found.total_without_flash_bytes == 182_536_110_080 + 80 * 21_474_836_480


def test_the_cache_of_keys_and_values() -> None:
    found = kv_cache(layers=80, kv_heads=8, head_dim=128, seq_len=8_192, sequences=32)
    assert found.token_bytes == 320 * 1024
    assert found.sequence_bytes == 2_684_354_560  # 2.7 GB
    assert found.total_bytes == 85_899_345_920  # 86 GB


def test_an_all_reduce_moves_twice_its_bytes_in_the_limit_and_less_in_a_ring_of_eight() -> None:
    links = {"nvlink": 450e9, "400G": 50e9, "800G": 100e9}
    found = all_reduce(141 * 10**9, ranks=8, links=links)
    assert (found.limit_bytes, found.ring_bytes) == (282_000_000_000, 246_750_000_000)
    assert [round(link.limit_s, 1) for link in found.links] == [0.6, 5.6, 2.8]
    assert [round(link.ring_s or 0, 4) for link in found.links] == [0.5483, 4.935, 2.4675]


def test_an_all_reduce_of_unknown_ranks_has_the_limit_alone() -> None:
    found = all_reduce(10, ranks=None, links={"a": 5.0})
    assert (found.ring_bytes, found.links) == (None, (LinkTime("a", 5.0, None, 4.0),))


def test_one_rank_exchanges_nothing_and_a_part_of_a_byte_counts_whole() -> None:
    assert ring_bytes(100, 1) == 0
    assert ring_bytes(100, 3) == 134  # 133.3


def test_sixteen_stages_wait_for_half_of_sixteen_microbatches() -> None:
    found = bubble(stages=16, microbatches=16)
    assert round(100 * found.bubble_ratio, 1) == 48.4
    assert found.of_work_ratio == 15 / 16


def test_virtual_stages_shorten_the_bubble() -> None:
    found = bubble(stages=16, microbatches=16, virtual_stages=3)
    assert found.of_work_ratio == 15 / 48
    assert found.bubble_ratio == 15 / 63
    assert bubble(stages=1, microbatches=4).bubble_ratio == 0


def test_the_widest_product_of_a_70b_layer_is_arithmetic() -> None:
    found = matmul(H100, rows=8_192, inner=8_192, columns=28_672)
    assert found.flops == 3_848_290_697_216  # 3.85 TFLOP
    assert found.hbm_bytes == 1_073_741_824  # 1.074 GB
    assert round(1e3 * found.compute_s, 1) == 3.9
    assert round(1e3 * found.memory_s, 1) == 0.3
    assert found.flops_per_byte == 3_584
    assert found.clock == "compute"
    assert round(ridge(H100)) == 295


def test_a_70b_layer_at_8k_tokens_is_arithmetic() -> None:
    found = training(H100, params=856_000_000, tokens=8_192, launches=90)
    assert round(1e3 * found.compute_s, 1) == 42.5  # 42 where digits are cut
    assert round(1e3 * found.overhead_s, 1) == 0.5
    assert found.clock == "compute"


def test_a_70b_layer_at_128_tokens_is_memory() -> None:
    found = training(H100, params=856_000_000, tokens=128, launches=90)
    assert in_ms(found) == (0.7, 1.5, 0.5)
    assert found.clock == "memory"
    assert found.overlapped_s == found.memory_s
    assert round(1e3 * found.serial_s, 2) == 2.74


def in_ms(found: Clocks) -> tuple[float, ...]:
    return tuple(round(1e3 * s, 1) for s in (found.compute_s, found.memory_s, found.overhead_s))


def test_gradients_of_the_model_take_longer_on_the_network_than_the_step_computes() -> None:
    network = Machine(989e12, 3.35e12, link_bytes_per_s=50e9)
    found = training(network, params=70_500_000_000, tokens=8_192, ranks=1_024)
    assert round(found.compute_s, 1) == 3.5
    assert round(found.comm_s or 0, 1) == 5.6
    assert found.clock == "comm"


def test_decoding_a_70b_layer_is_memory() -> None:
    found = decode(H100, params=856_000_000)
    assert round(1e6 * found.compute_s, 1) == 1.7
    assert round(1e6 * found.memory_s, -1) == 510
    assert found.clock == "memory"


@pytest.mark.parametrize(
    ("hbm_bytes_per_s", "devices", "milliseconds", "tokens_per_s"),
    [(3.35e12, 1, 42.1, 24), (3.35e12, 2, 21.0, 48), (8e12, 1, 17.6, 57)],
)
def test_a_lone_token_of_70b_takes_what_its_weights_take_to_read(
    hbm_bytes_per_s: float, devices: int, milliseconds: float, tokens_per_s: int
) -> None:
    found = decode(Machine(989e12, hbm_bytes_per_s), params=70_500_000_000, devices=devices)
    assert found.hbm_bytes * devices == 141_000_000_000
    assert round(1e3 * found.memory_s, 1) == milliseconds
    assert round(1 / found.overlapped_s) == tokens_per_s


def test_the_cache_of_32_long_sequences_is_read_beside_the_weights() -> None:
    found = decode(H100, params=70_500_000_000, batch=32, context=8_192, kv_token_bytes=327_680)
    assert found.hbm_bytes == 141_000_000_000 + 85_899_345_920


def test_compute_takes_over_from_memory_at_a_batch_of_295() -> None:
    below, above = (decode(H100, params=10**9, batch=n) for n in (295, 296))
    assert (below.clock, above.clock) == ("memory", "compute")


def test_decoding_a_small_model_is_launches() -> None:
    layer = decode(H100, params=61_000_000, launches=30)
    assert layer.hbm_bytes == 122_000_000
    assert round(1e6 * layer.memory_s) == 36
    assert round(1e6 * layer.overhead_s) == 180
    assert layer.clock == "overhead"
    whole = decode(H100, params=1_235_814_400, launches=16 * 30)
    assert round(1 / whole.overlapped_s) == 347  # all overlap
    assert round(1 / whole.serial_s) == 276  # nothing does: so about 300
    assert 1 / whole.memory_s > 1_000


def test_peaks_and_sizes_by_name_are_those_of_the_answers() -> None:
    h100, llama = device("h100-sxm"), model("llama-3-70b")
    assert (h100.peak_flops["bf16"], h100.hbm_bytes_per_s, h100.hbm_bytes) == (989e12, 3.35e12, 80_000_000_000)
    assert layer_params(llama) == 855_654_400  # 8192·(2·8192 + 2·1024) + 3·8192·28672 + 2·8192
    assert kv_cache(
        layers=llama.layers, kv_heads=llama.kv_heads, head_dim=llama.head_dim, seq_len=1, sequences=1
    ).total_bytes == (327_680)


def test_buckets_that_find_the_channel_free_leave_the_last_one_as_tail() -> None:
    found = queue([300 * MS, 400 * MS, 500 * MS, 600 * MS], [100 * MS, 100 * MS, 100 * MS, 50 * MS])
    assert (found.end_ns, found.tail_ns) == (650 * MS, 50 * MS)


def test_the_same_buckets_ready_later_leave_three_times_the_tail() -> None:
    found = queue([400 * MS, 500 * MS, 600 * MS, 600 * MS], [100 * MS, 100 * MS, 100 * MS, 50 * MS])
    assert (found.end_ns, found.tail_ns) == (750 * MS, 150 * MS)
    assert found.buckets[3] == Served(600 * MS, 700 * MS, 750 * MS)


def test_gradients_become_ready_evenly_and_the_last_bucket_holds_what_is_left() -> None:
    # Two ranks send their bytes once: 40 + 40 + 20 bytes at a byte a millisecond, 5 ms a call, over 200 ms of backward.
    found = gradient_queue(Exchange(100, 200 * MS, 2, 1_000.0, 5 * MS), 40)
    assert found.buckets == (
        Served(80 * MS, 80 * MS, 125 * MS),
        Served(160 * MS, 160 * MS, 205 * MS),
        Served(200 * MS, 205 * MS, 230 * MS),
    )
    assert found.tail_ns == 30 * MS


@pytest.mark.parametrize(
    ("backward_ms", "overhead_ms", "wanted"),
    [
        # 100 ms of transfer fit: 10 buckets fill (200 − 100) / 10, and the last one's 10 + 10 ms stick out.
        (200, 10, (10, 20)),
        # They do not fit: sqrt(50 / 2) = 5 buckets, 10 ms before the first, 5 calls and the transfer: 120 − 50.
        (50, 2, (5, 70)),
        # A call is dearer than all else: one bucket.
        (50, 200, (1, 300)),
    ],
)
def test_the_best_bucket_size(backward_ms: int, overhead_ms: int, wanted: tuple[int, int]) -> None:
    found = best_bucket(Exchange(100_000, backward_ms * MS, 2, 1e6, overhead_ms * MS))
    assert (found.n_buckets, found.tail_ns // MS) == wanted
    assert found.bucket_bytes == 100_000 // wanted[0]


@given(
    backward=st.integers(1, 1_000), overhead=st.integers(0, 300), n_bytes=st.integers(1, 60), rate=st.integers(1, 50)
)
def test_no_equal_buckets_have_a_shorter_tail_than_the_best(
    backward: int, overhead: int, n_bytes: int, rate: int
) -> None:
    exchange = Exchange(n_bytes * 5_040_000_000, backward * MS, 2, rate * 5_040_000_000 / 1e-3, overhead * MS)
    best = best_bucket(exchange)
    others = [gradient_queue(exchange, exchange.n_bytes // k).tail_ns for k in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12)]
    assert best.tail_ns <= min(others) + 200  # nanoseconds that rounding each service adds


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: duration(Job(7, 1, 0, 1.0, 0.4)), "devices cannot be 0"),
        (lambda: duration(Job(7, 1, 8, -1.0, 0.4)), "peak flops cannot be -1"),
        (lambda: duration(Job(7, 1, 8, 1.0, 1.52)), "an MFU of 1.52 cannot be"),
        (lambda: duration(Job(7, 1, 8, 1.0, 0.0)), "an MFU of 0 cannot be"),
        (lambda: duration(Job(7, 1, 8, 1.0, 0.4, Losses(downtime_s=-1))), "downtime s cannot be -1"),
        (lambda: bubble(stages=0, microbatches=4), "stages cannot be 0"),
        (lambda: all_reduce(1, ranks=0, links={}), "ranks cannot be 0"),
        (lambda: all_reduce(1, ranks=2, links={"ib": 0.0}), "link ib cannot be 0"),
        (lambda: decode(Machine(1.0, float("nan")), params=1), "memory bandwidth cannot be nan"),
        (lambda: queue([1, 2], [1]), "2 buckets are ready and 1 have a service time"),
        (lambda: queue([], []), "0 buckets are ready and 0 have a service time"),
        (lambda: queue([-1], [1]), "ready time cannot be -1"),
        (lambda: gradient_queue(Exchange(10**9, 1, 2, 1.0, 0), 10), "buckets of 10 B are 100,000,000"),
    ],
)
def test_a_number_that_cannot_be_is_refused_with_the_cure(call: object, fact: str) -> None:
    with pytest.raises(LongpoleError) as caught:
        call()  # type: ignore[operator]
    assert caught.value.fact == fact
    assert caught.value.cure
