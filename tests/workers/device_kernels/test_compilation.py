import re
import subprocess
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
import triton
from triton.backends.nvidia.compiler import get_ptxas

from workers.device_kernels import COPY_BLOCKS, SUPPORT, compile_copies, compile_support
from workers.device_kernels.compilation import FLOATS, INTEGERS, copy_name
from workers.errors import ToolMissing
from workers.protocol import DTYPE_BYTES


@pytest.fixture(scope="module", autouse=True)
def cold(tmp_path_factory):
    """A cache of Triton's that nothing is in yet."""
    with triton.knobs.cache.scope():
        triton.knobs.cache.dir = str(tmp_path_factory.mktemp("triton"))
        yield


def test_every_kernel_compiles_without_a_card() -> None:
    compiled = compile_support("sm_90")
    assert tuple(compiled) == SUPPORT
    for kernel in compiled.values():
        assert kernel.code.startswith(b"\x7fELF")
        assert kernel.entry.encode() in kernel.code
        assert kernel.num_warps in (1, 4, 8)
        assert kernel.shared_bytes <= 48 * 1024


def test_older_cards_lack_a_dtype() -> None:
    assert set(SUPPORT) - compile_support("sm_80").keys() == {"fill_float8_e4m3fn"}


@pytest.mark.parametrize("target", ["gfx942", "sm_1"])
def test_there_are_no_kernels_for_other_targets(target: str) -> None:
    with pytest.raises(ToolMissing, match=target):
        compile_support(target)


def test_every_dtype_of_inputs_can_be_filled() -> None:
    assert FLOATS.keys() | INTEGERS.keys() == DTYPE_BYTES.keys()


def test_copies_move_whole_vectors_and_leave_no_word_unread() -> None:
    compiled = compile_copies("sm_90")
    assert list(compiled) == [copy_name(block) for block in COPY_BLOCKS]
    tool = Path(get_ptxas(90).path).with_name("cuobjdump")
    for block, kernel in zip(COPY_BLOCKS, compiled.values(), strict=True):
        with NamedTemporaryFile(suffix=".cubin") as file:
            file.write(kernel.code)
            file.flush()
            text = subprocess.run([tool, "-sass", file.name], capture_output=True, text=True, check=True).stdout
        threads = 32 * kernel.num_warps
        assert len(re.findall(r"LDG\.E\.128", text)) == block // threads // 4
        assert "LDG.E " not in text
        assert len(re.findall(r"STG\.E\.128", text)) >= block // threads // 4
