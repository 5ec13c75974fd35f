"""Target sheets are complete, consistent, and named as Triton and plans name them."""

import pytest

from workers.protocol import DEVICE_TARGETS
from workers.targets import TARGETS


def test_every_hardware_class_compiles_for_a_target_with_a_sheet():
    assert set(DEVICE_TARGETS.values()) <= TARGETS.keys()


@pytest.mark.parametrize("sheet", TARGETS.values(), ids=TARGETS)
def test_a_sheet_is_plausible(sheet):
    assert sheet.source
    assert sheet.shared_block_bytes <= sheet.shared_sm_bytes
    assert sheet.threads_sm % sheet.warp_size == 0
    assert 1e11 < sheet.dram_bytes_per_s < 1e13 and sheet.fp32_flops < sheet.matrix_flops
    assert (sheet.vendor == "amd") == (sheet.capability == (0, 0)) == (sheet.warp_size == 64)


def test_triton_gets_a_number_for_nvidia_and_a_name_for_amd():
    assert (TARGETS["sm_90"].arch, TARGETS["gfx942"].arch) == (90, "gfx942")
    assert all(
        sheet.arch == sheet.capability[0] * 10 + sheet.capability[1]
        for sheet in TARGETS.values()
        if sheet.vendor == "nvidia"
    )
