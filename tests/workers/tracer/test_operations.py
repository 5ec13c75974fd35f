import pytest
import torch

from workers.protocol import Outcome
from workers.tracer.operations import FILL_VALUES, OperationKind, is_on_target, kind_of, name_of, refusal

aten = torch.ops.aten
KINDS = [
    (aten.empty.memory_format, OperationKind.ALLOCATION),
    (aten.empty_like.default, OperationKind.ALLOCATION),
    (aten.zeros.default, OperationKind.FILLED_ALLOCATION),
    (aten.new_full.default, OperationKind.FILLED_ALLOCATION),
    (aten.scalar_tensor.default, OperationKind.WRAPPED_NUMBER),
    (aten.fill_.Scalar, OperationKind.FILL),
    (aten.zero_.default, OperationKind.FILL),
    (aten.copy_.default, OperationKind.COPY),
    (aten.clone.default, OperationKind.CONVERSION),
    (aten._to_copy.default, OperationKind.CONVERSION),
    (aten.view.default, OperationKind.VIEW),
    (aten.slice.Tensor, OperationKind.VIEW),
    (aten.split.Tensor, OperationKind.VIEW),
    (aten.expand.default, OperationKind.VIEW),
    (aten.as_strided.default, OperationKind.VIEW),
    (aten._unsafe_view.default, OperationKind.VIEW),
    (aten.detach.default, OperationKind.VIEW),
    (aten._local_scalar_dense.default, OperationKind.READ),
    (aten.equal.default, OperationKind.READ),
    (aten.rand.default, OperationKind.RANDOM),
    (aten.add.Tensor, OperationKind.COMPUTATION),
    (aten.add_.Tensor, OperationKind.COMPUTATION),
    (aten.resize_.default, OperationKind.COMPUTATION),
    (aten.mm.default, OperationKind.COMPUTATION),
    (aten.arange.default, OperationKind.COMPUTATION),
]


@pytest.mark.parametrize(("operation", "kind"), KINDS, ids=lambda value: str(value))
def test_every_operation_is_of_one_kind(operation, kind):
    assert kind_of(operation) is kind


def test_names_leave_out_where_they_are_from():
    assert name_of(aten.fill_.Scalar) == "fill_"


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [("zeros", [[3]], 0), ("ones_like", [None], 1), ("full", [[3], 2.5], 2.5), ("new_full", [None, [3], 2.5], 2.5)],
)
def test_fill_values_are_found(name, arguments, value):
    assert FILL_VALUES[name](arguments) == value


def test_what_concerns_the_target():
    host, target = torch.empty(2), torch.empty(2, device="meta")
    assert is_on_target([target], {})
    assert is_on_target([[host, target]], {})
    assert is_on_target([[2]], {"device": "meta"})
    assert not is_on_target([host, [host]], {"device": torch.device("cpu")})


def test_refusals_name_the_operation_and_a_way_out():
    assert refusal(aten.mm.default).outcome is Outcome.FORBIDDEN_OP
    assert "(mm)" in refusal(aten.mm.default).reason
    assert "tl.rand" in refusal(aten.rand.default).reason
    assert refusal(aten.equal.default).outcome is Outcome.HOST_READ
    library = torch.library.Library("reef_tests", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    assert "custom operator (twice)" in refusal(torch.ops.reef_tests.twice.default).reason
