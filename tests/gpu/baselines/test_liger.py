"""liger-kernel and PyTorch's own calls compute what the catalogue's references do, at every benchmark shape."""

import pytest
import torch

from tests.workers.baselines.catalogue import OPERATORS, graph_of
from workers.baselines.contenders import COMPILE, EAGER, MAX_AUTOTUNE, contenders_of
from workers.baselines.preparation import ContenderPreparation
from workers.gpu_lock import GpuLock
from workers.inputs import draw
from workers.protocol import Shape

pytestmark = pytest.mark.gpu
SHAPES = [(name, shape) for name, operator in OPERATORS.items() for shape in operator.shapes]


@pytest.mark.parametrize(("name", "shape"), SHAPES, ids=lambda value: value if isinstance(value, str) else "")
def test_it_agrees_with_eager(name, shape, tmp_path):
    operator, device = OPERATORS[name], torch.device("cuda", 0)
    turns = GpuLock("0", tmp_path)
    shape = Shape(dims=shape.dims)
    makers, left_out = contenders_of(operator, graph_of(operator, shape), device, turns)
    library = {name: make for name, make in makers.items() if name not in (COMPILE, MAX_AUTOTUNE)}
    inputs = draw(operator, shape, "normal", b"liger", device=device)
    admitted, refused = ContenderPreparation(operator, inputs, turns).admit(library)
    assert refused == {}
    assert set(admitted) == set(library) >= {EAGER}
    assert "installed" not in left_out.get("liger", "")
