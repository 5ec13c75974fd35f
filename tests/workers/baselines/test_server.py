"""The process's work needs a card; that it says so, and not something worse, is what a machine without one can show."""

from contextlib import closing

import pytest
import torch

from tests.workers.assembler.modules import kernel_of, module
from tests.workers.assembler.plans import RMSNORM, bundle_of, rmsnorm_plan
from workers.baselines.messages import BaselineRequest
from workers.baselines.server import answer, demand_precision, with_memory
from workers.errors import ToolMissing
from workers.gpu_lock import MemoryLock
from workers.protocol import Precision


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a card")
def test_without_a_card_there_is_no_answer():
    kernel = kernel_of(module(""))
    pacer = bundle_of(kernel, rmsnorm_plan(kernel, {"M": 4, "N": 8}))
    request = BaselineRequest(operator=RMSNORM, graphs=(), pacer=pacer, machine_code={})
    with pytest.raises((ToolMissing, RuntimeError), match=r"cuda|CUDA"):
        answer(request, 0)


@pytest.mark.parametrize("allowed", [True, False])
def test_matrix_products_and_convolutions_keep_to_the_contract(allowed):
    demand_precision(Precision(allow_tf32=allowed))
    assert torch.backends.cuda.matmul.allow_tf32 is allowed
    assert torch.backends.cudnn.allow_tf32 is allowed
    assert (torch.backends.cudnn.conv.fp32_precision == "tf32") is allowed
    assert (torch.get_float32_matmul_precision() == "highest") is not allowed


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB."), [False, True]),
        (RuntimeError("the pacer cannot be replayed"), [False]),
    ],
)
def test_what_is_short_of_memory_is_measured_again_with_the_card_alone(tmp_path, error, tries):
    tried = []
    with closing(MemoryLock("paper", tmp_path)) as memory, closing(MemoryLock("paper", tmp_path)) as other:

        def work(fails):
            tried.append(memory.is_alone)
            if fails or not memory.is_alone:
                raise error
            return "measured"

        if len(tries) > 1:
            assert with_memory(memory, lambda: work(fails=False)) == "measured" and tried == tries
            tried.clear()
        with pytest.raises(type(error), match=str(error)[:12]):
            with_memory(memory, lambda: work(fails=True))
        assert tried == tries and not memory.is_alone
        other.take()
        assert other.is_alone, "nothing is held afterwards"
