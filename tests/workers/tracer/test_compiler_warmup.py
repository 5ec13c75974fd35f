"""A process that rehearses finds the compiler ready afterwards."""

import pytest

from workers.targets import TARGETS
from workers.tracer.compiler_warmup import rehearse


@pytest.mark.parametrize("name", ["sm_80", "sm_90", "gfx942"])
def test_a_kernel_is_compiled_for_the_target(name: str) -> None:
    kernel = rehearse(TARGETS[name]).kernel
    assert kernel.target == name and "kernel" in kernel.assembly
