"""Target sheets are complete, consistent, and named as Triton and plans name them."""

from dataclasses import replace
from math import inf

import pytest

from tests.workers.sheets import A10, A100_40, A100_80, B200, H100, H200, L4, L40S, RTX3090, RTX4090, RTX5090, X100
from workers.protocol import CardSheet
from workers.targets import FASTEST_SM, SM_RATES, TARGETS, shown_figures

NVIDIA = [sheet for sheet in TARGETS.values() if sheet.vendor == "nvidia"]
DATA_SHEETS = [
    (A100_40, 1555e9, 312e12, 19.5e12),
    (A100_80, 2039e9, 312e12, 19.5e12),
    (A10, 600e9, 125e12, 31.2e12),
    (RTX3090, 936e9, 142e12, 35.6e12),
    (L4, 300e9, 121e12, 30.3e12),
    (L40S, 864e9, 362e12, 91.6e12),
    (RTX4090, 1008e9, 330e12, 82.6e12),
    (H100, 3350e9, 989e12, 67e12),
    (H200, 4800e9, 989e12, 67e12),
    (B200, 8000e9, 2250e12, 74.5e12),
    (RTX5090, 1792e9, 419e12, 104.8e12),
]
"""Bandwidth, dense 16-bit and float32 rates of the vendor's data sheets, at boost clocks."""


@pytest.mark.parametrize("sheet", TARGETS.values(), ids=TARGETS)
def test_a_sheet_is_plausible(sheet):
    assert sheet.source
    assert sheet.shared_block_bytes <= sheet.shared_sm_bytes
    assert sheet.threads_sm % sheet.warp_size == 0
    assert 1e11 < sheet.dram_bytes_per_s < 1e13 and sheet.fp32_flops < sheet.matrix_flops
    assert (sheet.vendor == "amd") == (sheet.capability == (0, 0)) == (sheet.warp_size == 64)


def test_triton_gets_a_number_for_nvidia_and_a_name_for_amd():
    assert (TARGETS["sm_90"].arch, TARGETS["gfx942"].arch) == (90, "gfx942")
    assert all(sheet.arch == sheet.capability[0] * 10 + sheet.capability[1] for sheet in NVIDIA)


def test_rates_give_the_figures_of_the_targets_cards():
    for sheet in NVIDIA:
        rates = SM_RATES[sheet.name]
        assert sheet.sms * rates.matrix * sheet.clock_mhz * 1e6 == pytest.approx(sheet.matrix_flops, rel=0.1)
        assert sheet.sms * rates.fp32 * sheet.clock_mhz * 1e6 == pytest.approx(sheet.fp32_flops, rel=0.1)


@pytest.mark.parametrize(
    ("card", "bandwidth", "matrix", "fp32"), DATA_SHEETS, ids=[row[0].device_class for row in DATA_SHEETS]
)
def test_peaks_are_never_below_the_data_sheets(card: CardSheet, bandwidth: float, matrix: float, fp32: float):
    figures = TARGETS[f"sm_{card.capability.replace('.', '')}"].of_card(card)
    assert 0.999 * bandwidth <= figures.dram_bytes_per_s <= 1.03 * bandwidth
    assert 0.995 * matrix <= figures.matrix_flops <= 1.3 * matrix, "the highest clock is above the boost clock"
    assert 0.995 * fp32 <= figures.fp32_flops <= 1.3 * fp32
    assert (figures.card, figures.sms, figures.memory_bytes) == (card.name, card.sms, card.memory_bytes)


def test_a_peak_is_infinite_where_the_driver_tells_too_little():
    figures = TARGETS["sm_89"].of_card(RTX4090.model_copy(update={"clock_mhz": None, "bus_bits": None}))
    assert (figures.dram_bytes_per_s, figures.matrix_flops, figures.fp32_flops) == (inf, inf, inf)
    without_memory = RTX4090.model_copy(update={"memory_clock_mhz": None})
    assert TARGETS["sm_89"].of_card(without_memory).dram_bytes_per_s == inf


def test_shown_figures_are_the_cards_as_far_as_its_driver_tells_them():
    assert shown_figures("sm_89", None) == TARGETS["sm_89"]
    assert shown_figures("sm_89", RTX4090) == TARGETS["sm_89"].of_card(RTX4090)
    silent = shown_figures("sm_89", RTX4090.model_copy(update={"clock_mhz": None}))
    assert (silent.card, silent.matrix_flops) == (RTX4090.name, TARGETS["sm_89"].matrix_flops)
    assert silent.dram_bytes_per_s == pytest.approx(1.008e12, rel=1e-3)


def test_an_unknown_architecture_has_the_highest_known_rates():
    unknown = replace(TARGETS["sm_100"], name="sm_130", capability=(13, 0)).of_card(X100)
    assert unknown.matrix_flops == X100.sms * FASTEST_SM.matrix * 2.4e9
    assert max(rate.matrix for rate in SM_RATES.values()) == FASTEST_SM.matrix
