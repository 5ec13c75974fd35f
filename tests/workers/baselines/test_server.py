"""The process's work needs a card; that it says so, and not something worse, is what a machine without one can show."""

import pytest
import torch

from tests.workers.assembler.modules import kernel_of, module
from tests.workers.assembler.plans import RMSNORM, bundle_of, rmsnorm_plan
from workers.baselines.messages import BaselineRequest
from workers.baselines.server import answer, demand_precision
from workers.errors import ToolMissing
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
