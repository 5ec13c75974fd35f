"""The reference evaluator: float64 as DESIGN 2 means it, native dtypes, and what it refuses."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.workers.live import LiveBytes
from workers.protocol import DtypeRef, Graph, InputRef, Node, NodeRef, Shape
from workers.reference import OPERATIONS, ReferenceFailed, evaluate, filters, is_allowed, is_finite, undefined_casts

X = InputRef(input=0)


def graph(*nodes: Node, outputs=None, dtypes=("bfloat16",)) -> Graph:
    return Graph(
        shape=Shape(dims={"N": 4}),
        nodes=nodes,
        outputs=outputs or (NodeRef(node=len(nodes) - 1),),
        output_shapes=((4,),) * len(dtypes),
        output_dtypes=dtypes,
    )


def cast(value, dtype: str) -> Node:
    return Node(op="aten._to_copy.default", args=(value,), kwargs={"dtype": DtypeRef(dtype=dtype)})


def test_an_operation_that_raises_on_these_inputs_is_named_with_the_remedy():
    picked = Node(op="aten.index_select.default", args=(X, 0, InputRef(input=1)))
    with pytest.raises(ReferenceFailed, match=r"fails on drawn inputs: aten.index_select.default raised .*`low`"):
        evaluate(graph(picked, dtypes=("float32",)), [torch.ones(4), torch.tensor([9])], double=True)


def test_a_shortage_of_memory_is_no_fault_of_the_reference_but_shared_memory_is():
    large = Node(op="aten.zeros.default", args=((2**46,),))
    with pytest.raises(RuntimeError, match="allocate memory") as raised:
        evaluate(graph(large, dtypes=("float32",)), [torch.ones(4)], double=True)
    assert not isinstance(raised.value, ReferenceFailed)
    wide = Node(op="aten.expand.default", args=(X, (3, 4)))
    added = Node(op="aten.add_.Tensor", args=(NodeRef(node=0), 1.0))
    with pytest.raises(ReferenceFailed, match="a single memory location"):
        evaluate(graph(wide, added, dtypes=("float32",)), [torch.ones(1, 4)], double=True)


class LostCard(TorchDispatchMode):
    """A card that reports an earlier fault at the next operation."""

    def __torch_dispatch__(self, *_: object, **__: object) -> None:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")


def test_a_card_that_fails_is_no_fault_of_the_reference():
    absolute = Node(op="aten.abs.default", args=(X,))
    with LostCard(), pytest.raises(torch.AcceleratorError):
        evaluate(graph(absolute), [torch.ones(4, dtype=torch.float64)], double=True)


THIRD = torch.tensor([1.0, 2.0, 4.0, 5.0], dtype=torch.bfloat16)


def test_double_leaves_out_every_float_cast_also_the_last():
    divide = Node(op="aten.div.Tensor", args=(NodeRef(node=0), 3.0))
    traced = graph(cast(X, "float32"), divide, cast(NodeRef(node=1), "bfloat16"))
    (expected,) = evaluate(traced, [THIRD], double=True)
    assert expected.dtype == torch.float64
    assert torch.equal(expected, THIRD.double() / 3)
    (native,) = evaluate(traced, [THIRD], double=False)
    assert native.dtype == torch.bfloat16
    assert torch.equal(native, (THIRD.float() / 3).bfloat16())


@pytest.mark.parametrize(("dtype", "double"), [("float64", True), ("float64", False), ("bfloat16", False)])
def test_a_graph_that_works_in_place_leaves_its_inputs_as_they_are(dtype: str, double: bool):
    given = THIRD.to(getattr(torch, dtype))
    view = Node(op="aten.view.default", args=(X, (4,)))
    add = Node(op="aten.add_.Tensor", args=(NodeRef(node=0), 1.0))
    (value,) = evaluate(graph(view, add), [given], double=double)
    assert value.tolist() == [2.0, 3.0, 5.0, 6.0]
    assert given.tolist() == [1.0, 2.0, 4.0, 5.0]


def test_wide_inputs_are_not_copied_where_nothing_works_in_place():
    given = torch.randn(4096, dtype=torch.float64)
    with LiveBytes(given) as live:
        evaluate(graph(Node(op="aten.tanh.default", args=(X,))), [given], double=True)
    assert live.most == 2 * given.nbytes


def test_casts_to_what_a_tensor_is_are_not_copied_where_nothing_works_in_place():
    given = torch.randn(4096, dtype=torch.float64)
    with LiveBytes(given) as live:
        evaluate(graph(cast(X, "float32"), Node(op="aten.tanh.default", args=(NodeRef(node=0),))), [given], double=True)
    assert live.most == 2 * given.nbytes


def test_what_is_worked_on_in_place_behind_a_cast_stays_apart_from_what_was_cast():
    add = Node(op="aten.add_.Tensor", args=(NodeRef(node=0), 1.0))
    total = Node(op="aten.add.Tensor", args=(X, NodeRef(node=1)))
    (value,) = evaluate(graph(cast(X, "float32"), add, total), [THIRD], double=True)
    assert value.tolist() == [3.0, 5.0, 9.0, 11.0]


def test_integer_values_stay_exact():
    traced = graph(cast(X, "int64"), dtypes=("int64",))
    (whole,) = evaluate(traced, [torch.tensor([1.9, -1.9, 3.0, 0.0])], double=True)
    assert whole.dtype == torch.int64
    assert whole.tolist() == [1, -1, 3, 0]


def test_what_depends_on_a_cast_that_no_integer_stands_for_is_undefined():
    divide = Node(op="aten.div.Tensor", args=(X, 0.01))
    places = Node(op="aten.arange.default", args=(4,))
    kept = Node(op="aten.zeros.default", args=((6,),), kwargs={"dtype": DtypeRef(dtype="int8")})
    put = Node(op="aten.index_put.default", args=(NodeRef(node=3), (NodeRef(node=2),), NodeRef(node=1)))
    traced = graph(divide, cast(NodeRef(node=0), "int8"), places, kept, put, dtypes=("int8",))
    inputs = [torch.tensor([1.0, 2.0, -1.289, float("nan")])]
    assert undefined_casts(traced, 0, inputs).tolist() == [False, True, False, True, False, False]
    shares = Node(op="aten.clamp.default", args=(NodeRef(node=0), -128, 127))
    clamped = graph(divide, shares, cast(NodeRef(node=1), "int8"), dtypes=("int8",))
    assert undefined_casts(clamped, 0, inputs).tolist() == [False, False, False, True]


def test_factories_and_integer_division_are_double_too():
    steps = Node(op="aten.arange.default", args=(4,))
    share = Node(op="aten.div.Tensor", args=(NodeRef(node=0), 3))
    full = Node(op="aten.full.default", args=((4,), 0.1), kwargs={"dtype": DtypeRef(dtype="float32")})
    total = Node(op="aten.add.Tensor", args=(NodeRef(node=1), NodeRef(node=2)))
    (value,) = evaluate(graph(steps, share, full, total), [THIRD], double=True)
    assert torch.equal(value, torch.arange(4, dtype=torch.float64) / 3 + 0.1)
    assert torch.get_default_dtype() == torch.float32


def test_infinite_constants_survive_json():
    fill = Node(op="aten.masked_fill.Scalar", args=(X, InputRef(input=1), "-Infinity"))
    traced = Graph.model_validate_json(graph(fill).model_dump_json())
    (value,) = evaluate(traced, [THIRD, torch.tensor([True, False, False, True])], double=False)
    assert value.tolist() == [float("-inf"), 2.0, 4.0, float("-inf")]


def test_results_of_one_call_are_told_apart():
    both = Node(op="aten.var_mean.correction", args=(X, (0,)), kwargs={"correction": 0})
    traced = graph(both, outputs=(NodeRef(node=0, result=1), NodeRef(node=0, result=0)), dtypes=("float32",) * 2)
    mean, variance = evaluate(traced, [THIRD.float()], double=True)
    assert (mean.item(), variance.item()) == (3.0, 2.5)


@pytest.mark.parametrize("double", [True, False])
def test_inputs_are_left_as_they_are(double):
    x = torch.ones(4, dtype=torch.float64)
    evaluate(graph(Node(op="aten.add_.Tensor", args=(X, 1.0))), [x], double=double)
    assert torch.equal(x, torch.ones(4, dtype=torch.float64))


@pytest.mark.parametrize("op", ["aten.randn_like.default", "aten.view.dtype", "aten.add.out", "prims.add.default"])
def test_a_forged_graph_is_refused(op):
    with pytest.raises(ValueError, match="may not contain"):
        evaluate(graph(Node(op=op, args=(X,))), [THIRD], double=True)


def test_an_output_that_is_no_tensor_is_refused():
    traced = graph(cast(X, "float32")).model_copy(update={"outputs": (NodeRef(node=7),)})
    with pytest.raises(ValueError, match="no tensor"):
        evaluate(traced, [THIRD], double=True)


def test_every_operation_on_the_list_exists_and_none_is_random():
    for name in OPERATIONS - {"lstm", "gru", "rnn_tanh", "rnn_relu"}:  # These are only in training.
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            assert torch.Tag.nondeterministic_seeded not in getattr(packet, overload).tags, name
    assert is_allowed("mul_", "Tensor")
    assert not is_allowed("_", "Tensor")


def test_a_layer_of_a_forged_graph_draws_no_numbers():
    x, state, weights = torch.randn(3, 2, 4), torch.zeros(1, 2, 4), torch.randn(4, 4)
    refs = InputRef(input=0), InputRef(input=1), (InputRef(input=2), InputRef(input=2))

    def layer(*, train: bool) -> Graph:
        node = Node(op="aten.rnn_tanh.input", args=(*refs, False, 1, 0.5, train, False, False))
        return graph(node, outputs=(NodeRef(node=0, result=0),))

    (found,) = evaluate(layer(train=False), [x, state, weights], double=True)
    first = torch.tanh(x[0].double() @ weights.double().T)
    torch.testing.assert_close(found[0], first)
    with pytest.raises(ValueError, match="in training"):
        evaluate(layer(train=True), [x, state, weights], double=True)
    assert not is_allowed("lstm", "data")


@pytest.mark.parametrize("double", [True, False])
def test_products_put_infinities_where_ieee_does(double):
    a = torch.tensor([[float("inf")], [2.0]], dtype=torch.bfloat16)
    b = torch.linspace(1, 2, 1500, dtype=torch.bfloat16)[None]
    product = Node(op="aten.mm.default", args=(X, InputRef(input=1)))
    (value,) = evaluate(graph(product), [a, b], double=double)
    assert value[0].isposinf().all()
    torch.testing.assert_close(value[1].double(), 2 * b[0].double())
    biased = Node(op="aten.addmm.default", args=(InputRef(input=1), X, InputRef(input=1)), kwargs={"beta": 3})
    (value,) = evaluate(graph(biased), [a, b], double=double)
    torch.testing.assert_close(value[1].double(), 5 * b[0].double(), rtol=1e-2, atol=0)


@pytest.mark.parametrize("elements", [1, 40])
@pytest.mark.parametrize("sizes", [((5, 7), (7, 3)), ((3, 7), (7, 11)), ((5, 2, 7), (5, 7, 3)), ((1, 4, 7), (1, 7, 3))])
def test_large_products_are_worked_out_in_parts(elements, sizes, monkeypatch):
    left, right = (torch.randn(size, generator=torch.Generator().manual_seed(3)) for size in sizes)
    for factor in (left, right):
        factor.view(-1)[::6] = 0.0
        for place, value in zip((1, 4, 9), ("inf", "-inf", "nan"), strict=True):
            factor.view(-1)[place] = float(value)
    product = Node(op=f"aten.{'bmm' if left.dim() == 3 else 'mm'}.default", args=(X, InputRef(input=1)))
    (whole,) = evaluate(graph(product), [left, right], double=True)
    monkeypatch.setattr("workers.products.PART_ELEMENTS", elements)
    (parts,) = evaluate(graph(product), [left, right], double=True)
    torch.testing.assert_close(parts, whole, equal_nan=True)
    terms = left.double().unsqueeze(-1) * right.double().unsqueeze(-3)
    torch.testing.assert_close(whole, terms.sum(-2), equal_nan=True)


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("special", [1, 3, 7])
def test_every_mix_of_terms_gives_what_ieee_says(double, special):
    generator = torch.Generator().manual_seed(special)
    values = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1e-40, -1e-40, 2.0, -3.0])
    likely = torch.tensor([1.0] * special + [8.0] * (len(values) - special))
    pair = [values[torch.multinomial(likely, 6 * 20 * 20, True, generator=generator)].view(6, 20, 20) for _ in range(2)]
    left, right = pair[0][:, :, :3], pair[1][:, :3]
    product = Node(op="aten.bmm.default", args=(X, InputRef(input=1)))
    (found,) = evaluate(graph(product), [left, right], double=double)
    terms = left.double().unsqueeze(-1) * right.double().unsqueeze(-3)
    torch.testing.assert_close(found, terms.sum(-2).to(found.dtype), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2])
def test_finite_is_what_holds_no_nan_and_no_infinity(dtype):
    fine = torch.linspace(-2, 2, 9).to(dtype)
    assert is_finite(fine) and is_finite() and is_finite(fine[:0]) and is_finite(fine, fine)
    for value in ("nan", "inf", "-inf"):
        spoiled = torch.where(torch.arange(9) == 4, float(value), torch.linspace(-2, 2, 9)).to(dtype)
        assert not is_finite(spoiled) and not is_finite(fine, spoiled)


def test_every_operation_that_computes_can_be_rounded():
    square = Node(op="aten.mul.Tensor", args=(InputRef(input=0), InputRef(input=0)))
    shaped = Node(op="aten.view.default", args=(NodeRef(node=0), (4,)))
    found = graph(square, shaped, outputs=(NodeRef(node=1),), dtypes=("float32",))
    (plain,) = evaluate(found, [torch.full((2, 2), 3.0)], double=True)
    (rounded,) = evaluate(found, [torch.full((2, 2), 3.0)], double=True, rounding=lambda _, values: values * 1.5)
    assert plain.tolist() == [9.0] * 4 and rounded.tolist() == [13.5] * 4


@pytest.mark.parametrize("transposed", [False, True])
def test_filters_of_convolutions_are_found_behind_casts(transposed):
    rest = (None, (1, 1), (1, 1), (1, 1), transposed, (0, 0), 1)
    weight = NodeRef(node=0)
    made = graph(
        cast(InputRef(input=1), "float32"),
        Node(op="aten.convolution.default", args=(X, weight, *rest)),
        Node(op="aten.convolution.default", args=(X, NodeRef(node=1), *rest)),
    )
    assert list(filters(made)) == [(1, int(transposed))], "what is computed is no input"


@pytest.mark.parametrize("more", [(), (2,), (2.0, (1,), True)])
def test_the_norm_of_one_element_is_the_root_of_its_square_as_that_of_several(more):
    norm = graph(Node(op="aten.linalg_vector_norm.default", args=(X, *more)), dtypes=("float32",))
    tiny = torch.tensor([[-1e-40]])
    assert evaluate(norm, [tiny], double=False)[0] == evaluate(norm, [tiny.expand(1, 2)], double=False)[0] == 0
    assert evaluate(norm, [tiny], double=True)[0] == -tiny.double()
    assert evaluate(norm, [torch.tensor([[-3.0]])], double=False)[0] == 3


def test_other_norms_of_one_element_are_torch_s():
    absolute = graph(Node(op="aten.linalg_vector_norm.default", args=(X, 1, (1,))), dtypes=("float32",))
    tiny = torch.tensor([[-1e-40]])
    assert evaluate(absolute, [tiny], double=False)[0] == -tiny
