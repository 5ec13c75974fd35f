import os

import pytest

from workers.sandbox import SandboxLimits, syscalls
from workers.sandbox.supervisor import execute
from workers.sandbox.survey import strongest_isolation


def test_a_refusal_of_the_kernel_is_told_with_its_reason():
    with pytest.raises(OSError, match="unshare: Invalid argument") as refused:
        syscalls.unshare(1)
    assert refused.value.errno == 22


def test_mounting_nonsense_is_refused():
    with pytest.raises(OSError, match="mount nonsense on /nowhere"):
        syscalls.mount("nonsense", "/nowhere")


def test_a_death_signal_is_taken():
    def ask(_):
        syscalls.die_with_parent(15)
        return str(os.getpid()).encode()

    assert execute(strongest_isolation(), ask, b"", SandboxLimits()).reply
