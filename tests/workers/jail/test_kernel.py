import os

import pytest

from workers.jail import Limits, kernel
from workers.jail.survey import strongest_walls
from workers.jail.warden import execute


def test_a_refusal_of_the_kernel_is_told_with_its_reason():
    with pytest.raises(OSError, match="unshare: Invalid argument") as refused:
        kernel.unshare(1)
    assert refused.value.errno == 22


def test_mounting_nonsense_is_refused():
    with pytest.raises(OSError, match="mount nonsense on /nowhere"):
        kernel.mount("nonsense", "/nowhere")


def test_a_death_signal_is_taken():
    def ask(_):
        kernel.die_with_parent(15)
        return str(os.getpid()).encode()

    assert execute(strongest_walls(), ask, b"", Limits()).reply
