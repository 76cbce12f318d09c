"""Devices and models are found however they are spelt, and a name that is not there is never another's."""

from __future__ import annotations

from collections import defaultdict

import pytest

from longpole import catalog, presets
from longpole.errors import LongpoleError


@pytest.mark.parametrize(
    ("spelling", "name", "dtype", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM", "bf16", 989e12),
        ("nvidia h100 80gb hbm3", "H100 SXM", "fp8", 1979e12),
        ("h100-pcie", "H100 PCIe", "bf16", 756e12),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB", "bf16", 312e12),
        ("Tesla V100-SXM2-16GB", "V100 SXM2 16GB", "fp16", 125e12),
        ("AMD Instinct MI300X", "MI300X", "bf16", 1307.4e12),
        ("AMD Instinct MI250X", "MI250X", "bf16", 191.5e12),  # one die of two
        ("NVIDIA B200", "B200", "bf16", 2250e12),
    ],
)
def test_a_device_is_found_as_dumps_and_people_spell_it(spelling: str, name: str, dtype: str, peak: float) -> None:
    found = presets.device(spelling)
    assert (found.name, found.peak_flops[dtype]) == (name, peak)


def test_the_h100_s_ridge_is_295_flops_per_byte() -> None:
    h100 = presets.device("H100 SXM")
    assert round(h100.peak_flops["bf16"] / h100.hbm_bytes_per_s) == 295
    assert h100.link_bytes_per_s == 450e9


def test_a_v100_has_no_bf16_peak() -> None:
    assert set(presets.device("V100 SXM2 32GB").peak_flops) == {"fp16", "fp32"}


def test_an_unknown_device_names_the_nearest_and_is_not_taken_for_it() -> None:
    with pytest.raises(LongpoleError, match="device 'NVIDIA A100-PG509-200' is not known"):
        presets.device("NVIDIA A100-PG509-200")
    with pytest.raises(LongpoleError, match="Did you mean 'H200'"):
        presets.device("NVIDIA H200X")


@pytest.mark.parametrize("spelling", ["Llama 3 8B", "llama3-8b", "Meta-Llama-3-8B"])
def test_a_model_is_found_however_it_is_spelt(spelling: str) -> None:
    found = presets.model(spelling)
    assert (found.params, found.embedding_params, found.seq_len) == (8_030_261_248, 525_336_576, 8192)


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(LongpoleError, match="Did you mean 'Llama 3 70B'"):
        presets.model("llama-3-71b")


@pytest.mark.parametrize("name", sorted(presets.models()))
def test_the_parameters_of_a_model_follow_from_its_sizes(name: str) -> None:
    m = presets.models()[name]
    attention = 2 * m.hidden * m.heads * m.head_dim + 2 * m.hidden * m.kv_heads * m.head_dim
    router = m.hidden * m.experts if m.experts > 1 else 0
    tables = m.embedding_params * (1 if m.is_tied else 2)

    def params(experts: int) -> int:
        layer = attention + 3 * m.hidden * m.ffn * experts + router + 2 * m.hidden
        return m.layers * layer + m.hidden + tables

    assert m.embedding_params == m.vocab * m.hidden
    assert (params(m.experts), params(m.experts_per_token)) == (m.params, m.active_params)


def test_rows_of_one_device_differ_in_dtype_and_peak_alone() -> None:
    seen: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for row in catalog.data("devices"):
        seen[row["device"]].add(tuple(v for k, v in row.items() if k not in ("dtype", "peak_flops")))
    assert {len(rows) for rows in seen.values()} == {1}


def test_no_spelling_means_two_things() -> None:
    for known in (presets.devices(), presets.models()):
        keys = [
            presets.key(s)
            for preset in known.values()
            for s in {presets.key(n) for n in (preset.name, *preset.aliases)}
        ]
        assert len(keys) == len(set(keys))
