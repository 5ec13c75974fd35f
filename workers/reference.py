"""The reference evaluator: computes a reference graph in float64 or in the operator's own dtypes.

The graph is data that left a jail, so every operation is looked up in `OPERATIONS` before it is resolved.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from math import frexp
from typing import Any, Literal, TypeAlias, TypeGuard, TypeVar

import torch
from torch._ops import OpOverload

from workers.convolution import convolved
from workers.errors import first_line, lacks_memory
from workers.products import is_finite, may_overflow, multiply
from workers.protocol import DtypeRef, Graph, InputRef, Node, NodeRef, Reference
from workers.protocol.base import NON_FINITE
from workers.resizing import RESIZING
from workers.tf32 import FACTORS, cut_to_tf32, takes_tf32

_ELEMENTWISE = """
abs neg sign sgn reciprocal sqrt rsqrt square exp exp2 expm1 log log2 log1p log10 sin cos tan sinh cosh tanh asin acos
atan erf erfc sigmoid relu silu gelu elu leaky_relu hardtanh hardswish hardsigmoid softplus mish floor ceil round trunc
frac isnan isinf isfinite logical_not bitwise_not add sub rsub mul div pow fmod remainder floor_divide maximum minimum
fmax fmin atan2 hypot xlogy clamp clamp_min clamp_max lerp addcmul addcdiv eq ne lt le gt ge logical_and logical_or
logical_xor bitwise_and bitwise_or bitwise_xor __lshift__ __rshift__ where masked_fill log_sigmoid_forward
bitwise_left_shift bitwise_right_shift nan_to_num erfinv lgamma digamma i0 special_i0e special_i1 special_i1e
special_entr logit logaddexp logaddexp2 sinc asinh acosh atanh signbit isposinf isneginf heaviside copysign celu
hardshrink softshrink threshold glu _prelu_kernel rad2deg deg2rad
"""
_REDUCTIONS = """
_embedding_bag _embedding_bag_forward_only
sum mean prod amax amin max min argmax argmin any all var std var_mean logsumexp cumsum cumprod norm linalg_vector_norm
sort topk _softmax _safe_softmax _log_softmax native_layer_norm native_group_norm native_batch_norm _fused_rms_norm
nll_loss_forward nll_loss2d_forward mse_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy
binary_cross_entropy_with_logits aminmax logcumsumexp cummax cummin nansum count_nonzero std_mean renorm index_add
scatter_reduce _cdist_forward
"""
_COMPARISONS = """
gt ge lt le eq ne isnan isinf isfinite argmax argmin any all sort topk bucketize searchsorted sign sgn nonzero
logical_not logical_and logical_or logical_xor
"""
_CHOICES = "neg abs relu clamp clamp_min clamp_max minimum maximum where masked_fill amax amin max min"
_INTEGER_ARITHMETIC = "add sub rsub mul sum cumsum remainder fmod square"
_PRODUCTS = """
mm bmm addmm baddbmm mv dot vdot addmv addr linalg_cross _trilinear convolution avg_pool2d avg_pool3d
max_pool2d_with_indices max_pool3d_with_indices _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d
adaptive_max_pool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
upsample_trilinear3d upsample_bicubic2d grid_sampler_2d grid_sampler_3d col2im im2col lstm gru rnn_tanh rnn_relu
"""
_CASTING, _CAST = "_to_copy", "aten._to_copy.default"
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_CONVOLUTION, _CONVOLVE, _TRANSPOSED = "convolution", "aten.convolution.default", 6
"""The operation, its call, and which of its arguments says whether it is transposed."""
_MULTIPLYING = frozenset(["mm", "bmm", "addmm", "baddbmm", "mv", "dot", _CONVOLUTION])
_SHAPES = """
view _unsafe_view expand permute transpose t squeeze unsqueeze slice select split split_with_sizes unbind cat stack
repeat flip roll tril triu diagonal gather index index_select index_put scatter scatter_add embedding constant_pad_nd
as_strided unfold _to_copy clone copy contiguous alias detach lift_fresh lift_fresh_copy fill zero unsafe_split
unsafe_split_with_sizes index_copy index_fill masked_scatter take put diag_embed rot90 slice_scatter select_scatter
diagonal_scatter bucketize searchsorted pixel_shuffle pixel_unshuffle channel_shuffle reflection_pad1d reflection_pad2d
reflection_pad3d replication_pad1d replication_pad2d replication_pad3d view_as_complex view_as_real complex polar _conj
resolve_conj
"""
_GRADIENTS = """
_softmax_backward_data _log_softmax_backward_data native_layer_norm_backward native_group_norm_backward
native_batch_norm_backward _fused_rms_norm_backward nll_loss_backward mse_loss_backward gelu_backward silu_backward
sigmoid_backward tanh_backward threshold_backward elu_backward leaky_relu_backward hardtanh_backward
hardswish_backward hardsigmoid_backward softplus_backward mish_backward log_sigmoid_backward convolution_backward
avg_pool2d_backward max_pool2d_with_indices_backward _adaptive_avg_pool2d_backward embedding_dense_backward
slice_backward select_backward
"""
_FACTORIES = """
arange tril_indices triu_indices full zeros ones empty empty_strided eye linspace scalar_tensor full_like zeros_like
ones_like empty_like new_full new_zeros new_ones new_empty new_empty_strided
"""
OPERATIONS = frozenset("".join((_ELEMENTWISE, _REDUCTIONS, _PRODUCTS, _SHAPES, _GRADIENTS, _FACTORIES)).split())
"""ATen operations a reference may use, without overloads; each also in place, on tensors the reference made itself.

None of them draws random numbers, reads files, or lets values decide about shapes.
"""

Argument = TypeVar("Argument")
Result: TypeAlias = torch.Tensor | tuple[torch.Tensor, ...] | None
"""The value of one node."""

Rounding: TypeAlias = Callable[[int, torch.Tensor], torch.Tensor]
Factors: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""A float tensor as it was computed, by which node of the graph, to the one that is gone on with."""
Change: TypeAlias = Callable[[Node, list[torch.Tensor], Result], Result]
"""A node, the tensors that it uses and its result, to the result that is gone on with."""
Statistics: TypeAlias = Callable[[torch.Tensor, list[int]], tuple[torch.Tensor, torch.Tensor]]
"""Values and the axes that a norm adds along, to mean and variance, which keep these axes with size 1."""
_COMPARING = frozenset(_COMPARISONS.split())
_TO_WHOLE = _COMPARING | {"round", "floor", "ceil", "trunc", "floor_divide"}
_PICKING = frozenset(_CHOICES.split())
_WHOLE_FROM_WHOLE = _PICKING | _MULTIPLYING | set(_INTEGER_ARITHMETIC.split())
_MOVING = frozenset((*_SHAPES.split(), *_FACTORIES.split()))
"""Operations that round nothing."""

_LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_REFUSED_OVERLOADS = {("view", "dtype"), *((layer, "data") for layer in _LAYERS)}
"""Reinterpreting bits has no meaning once float tensors are held in float64; values decide the shapes of packed
sequences."""

_FOLDING = frozenset(["native_batch_norm", "native_group_norm"])
"""Norms that torch folds on a CPU: it multiplies x by weight / deviation and adds one number, so an infinite weight
makes NaN of results that are infinite. Kernels may do either: `native` is torch's own."""
_ALONG_AXES = frozenset(["prod", "cumprod"])
_VIEW = "aten.view.default"
_NORMS = frozenset(["linalg_vector_norm", "norm"])
_PRODUCTS_OF_TWO = frozenset(f"aten.{name}.default" for name in ("mm", "bmm", "addmm", "baddbmm"))


class ReferenceFailed(RuntimeError):
    """An operation of the reference raised on drawn inputs; the message has the remedy."""

    def __init__(self, fault: str) -> None:
        super().__init__(
            f"the reference fails on drawn inputs: {fault}. Let the spec say what they are: by `low` and `high`, or by "
            "an order of integers as their `distribution`"
        )


def is_allowed(name: str, overload: str) -> bool:
    """Return True if a graph may contain `aten.<name>.<overload>`."""
    base = name[:-1] if name.endswith("_") and name[:-1] in OPERATIONS else name
    return base in OPERATIONS and "out" not in overload.split("_") and (base, overload) not in _REFUSED_OVERLOADS


def evaluate(
    graph: Graph,
    inputs: Sequence[torch.Tensor],
    *,
    double: bool,
    rounding: Rounding | None = None,
    changes: Mapping[str, Change] | None = None,
    tf32: bool | Literal["convolutions"] = False,
    factors: Factors | None = None,
) -> tuple[torch.Tensor, ...]:
    """Compute the reference.

    With `double`, float inputs, float constants and every float cast become float64. So does the last cast to a
    declared output dtype: float results come back unrounded, in float64. Integer and boolean values keep their dtype.

    Args:
        graph: The reference for the inputs' shape.
        inputs: The operator's inputs, in order, on one device. They are not changed.
        double: Evaluate in float64 instead of the operator's own dtypes.
        rounding: What becomes of every float tensor that an operation computes; None leaves them as they are.
        changes: What becomes of results of operations, by their names without overloads; None leaves them as they are.
        tf32: True if factors of products may be TF32, `convolutions` if only those of convolutions and recurrent
            layers.
        factors: What becomes of each float factor that may be TF32; None cuts those of float32.

    Returns:
        The results, in the operator's order; what is an input that was only moved may share its memory.

    Raises:
        ReferenceFailed: If an operation raises on these inputs.
        ValueError: If the graph names an operation that is not allowed, or something else where a tensor belongs.
    """
    with torch.no_grad(), _default_dtype(torch.float64 if double else torch.float32):
        copy = any(map(_writes, graph.nodes))
        given = [_given(tensor, double, copy=copy) for tensor in inputs]
        values: list[Result] = []
        spent = _spent_after(graph)
        for index, node in enumerate(graph.nodes):
            change = (factors or cut_to_tf32) if takes_tf32(node, tf32) else None
            result = _call(node, given, values, double, copy=copy, factors=change)
            result = result if rounding is None or _moves(node) else _rounded(result, partial(rounding, index))
            if changes and (changed := changes.get(_base(node))):
                used = [_tensor(_resolve(value, given, values, double)) for value in node.uses]
                result = changed(node, used, result)
            values.append(result)
            for last in spent.get(index, ()):
                values[last] = None
        return tuple(_tensor(_resolve(output, given, values, double)) for output in graph.outputs)


def origin(graph: Graph, value: Reference) -> int | None:
    """The node that computes a value, whatever casts and moves it afterwards; None where an input is passed on."""
    found = _unmoved(graph, value)
    return found.node if isinstance(found, NodeRef) else None


def undefined_casts(graph: Graph, number: int, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the places of a whole result that depend on a cast of a float that no integer of the dtype stands for.

    That is so, too, where the reference overflows in its own dtypes: there PyTorch has no defined result either.
    """
    found = []
    for double in (True, False):
        values = ({_CASTING: partial(_defined, value)} for value in (0, 1))
        one, other = (evaluate(graph, inputs, double=double, changes=each)[number] for each in values)
        found.append(one != other)
    return found[0] | found[1]


def uncertain_products(graph: Graph, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return the places of each result that depend on a product along an axis that may overflow if made in parts."""
    if not any(_base(node) in _ALONG_AXES for node in graph.nodes):
        return tuple(torch.zeros((), dtype=torch.bool, device=inputs[0].device) for _ in graph.outputs)
    values = (dict.fromkeys(_ALONG_AXES, partial(_certain, value)) for value in (2.0, 3.0))
    one, other = (evaluate(graph, inputs, double=True, changes=each) for each in values)
    return tuple((x != y) & ~(x.isnan() & y.isnan()) for x, y in zip(one, other, strict=True))


def filters(graph: Graph) -> Iterator[tuple[int, int]]:
    """Inputs that are filters of convolutions, by position, and their axis that is not summed over."""
    for node in graph.nodes:
        if _base(node) == _CONVOLUTION and isinstance(found := _unmoved(graph, node.uses[1]), InputRef):
            transposed = node.args[_TRANSPOSED] is True
            yield found.input, int(transposed)


def _unmoved(graph: Graph, value: Reference) -> Reference:
    """The value as it was before casts and moves."""
    while isinstance(value, NodeRef):
        node = graph.nodes[value.node]
        if not _moves(node) or not node.uses:
            return value
        value = node.uses[0]
    return value


@dataclass(frozen=True)
class RoundedFloats:
    """The floats of a graph that become integers, by a last rounding as in quantisation, or by a comparison.

    Attributes:
        nodes: Nodes whose results depend on rounding: no inputs, no sums of integers, no choice among such, and no
            multiples by powers of two.
        outputs: For each result of the graph, True if a cast or an operation makes whole numbers for it, and no
            comparison is involved: what is counted or chosen does not move by one.
        compared: For each result, True if it is whole and comparisons are involved.
    """

    nodes: frozenset[int]
    outputs: tuple[bool, ...]
    compared: tuple[bool, ...]

    @classmethod
    def of(cls, graph: Graph, integers: Collection[int]) -> "RoundedFloats":
        """Find them; `integers` are positions of inputs that are integers."""
        whole, unrounded, compared = set[int](), set[int](), set[int]()
        for index, node in enumerate(graph.nodes):
            used = {value.node for value in node.uses if isinstance(value, NodeRef)}
            given = all(value.input in integers for value in node.uses if isinstance(value, InputRef))
            if _base(node) in _COMPARING or used & compared:
                compared.add(index)
            are_whole = given and used <= whole and all(number.is_integer() for number in _floats(node))
            if _makes_whole(node) or (are_whole and (_moves(node) or _base(node) in _WHOLE_FROM_WHOLE)):
                whole.add(index)
            elif used <= unrounded | whole and _rounds_nothing(node):
                unrounded.add(index)
        ends = [value.node if isinstance(value, NodeRef) else -1 for value in graph.outputs]
        return cls(
            frozenset(range(len(graph.nodes))) - whole - unrounded,
            tuple(end in whole - compared for end in ends),
            tuple(end in whole & compared for end in ends),
        )


def _floats(node: Node) -> Iterator[float]:
    return (value for value in node.args if isinstance(value, float))


def _is_power_of_two(node: Node) -> bool:
    """Return True if the node multiplies by a power of two or divides by one, which rounds nothing."""
    if _base(node) not in ("mul", "div") or len(node.uses) != 1 or node.kwargs:
        return False
    factor = node.args[-1]
    return isinstance(factor, int | float) and abs(frexp(factor)[0]) == 0.5


def _narrowed(node: Node, used: Sequence[torch.Tensor], result: Result) -> torch.Tensor:
    """Return the float64 result of a float cast rounded to the dtype that the node names; others as they are."""
    result = _tensor(result)
    named = node.kwargs.get("dtype")
    dtype = getattr(torch, named.dtype) if isinstance(named, DtypeRef) else result.dtype
    return result.to(dtype).double() if dtype.is_floating_point else result


NARROWED: Mapping[str, Change] = {_CASTING: _narrowed}
"""Casts in float64 that round."""


def is_whole_slice(node: Node) -> bool:
    """Return True if a node casts, or takes the first elements of an axis: what it holds keeps its meaning."""
    start, step = ([*node.args[2:], None, None, 1][:3])[0], ([*node.args[4:5], 1])[0]
    return node.op == _CAST or (_base(node) == "slice" and start in (None, 0) and step == 1)


def _makes_whole(node: Node) -> bool:
    dtype = node.kwargs.get("dtype")
    casts = isinstance(dtype, DtypeRef) and not getattr(torch, dtype.dtype).is_floating_point
    return casts or _base(node) in _TO_WHOLE


def _rounds_nothing(node: Node) -> bool:
    return _moves(node) or _base(node) in _PICKING or _is_power_of_two(node)


def is_product(node: Node) -> bool:
    """Return True if the node is a matrix product or a convolution."""
    return _base(node) in _MULTIPLYING


def allows_tf32(graph: Graph, allowed: bool | Literal["convolutions"]) -> bool:
    """Return True if TF32 may replace float32 in a product of a graph, be it one operation or spelled out."""
    return any(takes_tf32(node, allowed) for node in graph.nodes) or (allowed is True and _adds_products(graph))


def shows_factors(graph: Graph, allowed: bool | Literal["convolutions"]) -> bool:
    """Return True if products of a graph may be TF32, and all of their factors are values of the graph.

    Those of a recurrent layer are not: its states are factors at every step.
    """
    products = [node for node in graph.nodes if takes_tf32(node, allowed)]
    return bool(products) and not any(_base(node) in _LAYERS for node in products)


def _adds_products(graph: Graph) -> bool:
    """Return True if a sum or mean adds elementwise products of two tensors: a product that is spelled out."""
    sums = (node for node in graph.nodes if _base(node) in ("sum", "mean") and node.uses)
    nodes = (graph.nodes[node] for value in sums if (node := origin(graph, value.uses[0])) is not None)
    return any(_base(node) == "mul" and len(node.uses) > 1 for node in nodes)


def _changed(value: object, change: Factors) -> object:
    """Change a factor; of lists, as the states and weights of a layer, each."""
    if isinstance(value, list | tuple):
        return [_changed(each, change) for each in value]
    return change(value) if _is_real(value) else value


def moves(name: str) -> bool:
    """Return True if an ATen operation moves values or makes known ones: it rounds nothing."""
    return name.removesuffix("_") in _MOVING


def _moves(node: Node) -> bool:
    return moves(node.name)


def _base(node: Node) -> str:
    return node.name.removesuffix("_")


def _rounded(result: Result, rounding: Callable[[torch.Tensor], torch.Tensor]) -> Result:
    if isinstance(result, tuple | list):
        return tuple(rounding(part) if _is_real(part) else part for part in result)
    return rounding(result) if _is_real(result) else result


def _defined(value: int, node: Node, used: Sequence[torch.Tensor], result: Result) -> torch.Tensor:
    """Return a cast with a value where it is of a float that no integer of the dtype stands for."""
    source, result = used[0], _tensor(result)
    if result.dtype not in _WHOLE or not source.is_floating_point():
        return result
    limits, cut = torch.iinfo(result.dtype), source.trunc()  # Casts cut fractions off; NaN is not between the limits.
    return torch.where((cut >= float(limits.min)) & (cut < float(limits.max + 1)), result, value)


def _certain(value: float, node: Node, used: Sequence[torch.Tensor], result: Result) -> torch.Tensor:
    """Return a product along an axis with a value where it may overflow."""
    source, result = used[0], _tensor(result)
    if not source.is_floating_point():
        return result
    axis = node.args[1] if len(node.args) > 1 else None
    factors, along = (source, axis) if isinstance(axis, int) else (source.flatten(), 0)
    may = may_overflow(factors, along)
    if _base(node) == "prod":
        may = may.any() if axis is None else may.any(along, keepdim=node.args[2:3] == (True,))
    return torch.where(may, value, result)


def _is_real(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _writes(node: Node) -> bool:
    """Return True if the node works in place."""
    return node.name.endswith("_")


def _given(tensor: torch.Tensor, double: bool, *, copy: bool) -> torch.Tensor:
    """An input as the graph gets it; itself where nothing asks for another."""
    return tensor.to(torch.float64 if double and tensor.is_floating_point() else tensor.dtype, copy=copy)


def _tensor(value: object) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise ValueError("the reference graph passes or returns something that is no tensor")
    return value


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Set the dtype of factories and integer divisions for which the reference names none."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def call_of(
    node: Node, resolve: Callable[[object], Argument], device: torch.device | None
) -> tuple[OpOverload, list[Argument], dict[str, Any]]:
    """Return the operation of a node, with its positional and keyword arguments.

    Args:
        node: The node.
        resolve: Converts an argument from the protocol.
        device: Device on which factories create tensors; None for torch's default.

    Raises:
        ValueError: If the operation is not allowed in a reference.
    """
    operation = _operation(node.op)
    args = [resolve(value) for value in node.args]
    kwargs: dict[str, Any] = {name: resolve(value) for name, value in node.kwargs.items()}
    if "memory_format" in kwargs:
        kwargs["memory_format"] = getattr(torch, str(kwargs["memory_format"]))
    if node.name in _LAYERS and (kwargs or args[6:7] != [False]):
        raise ValueError("a recurrent layer of a reference graph is in training, where it may draw random numbers")
    if device is not None and _is_factory(operation):
        kwargs["device"] = device
    return operation, args, kwargs


def _call(
    node: Node,
    given: Sequence[torch.Tensor],
    values: Sequence[Result],
    double: bool,
    *,
    copy: bool,
    factors: Factors | None,
) -> Result:
    device = given[0].device if given else None
    operation, args, kwargs = call_of(node, lambda value: _resolve(value, given, values, double), device)
    if factors is not None:
        first, last = FACTORS[_base(node)]
        args[first:last] = [_changed(value, factors) for value in args[first:last]]
    if node.op == _CAST and not copy and _casts_nothing(args, kwargs):
        return _tensor(args[0])
    if node.op == _VIEW:  # Where the operand lies otherwise in memory than when the graph was traced, views do not fit.
        with suppress(ReferenceFailed):
            return _result(torch.ops.aten.reshape.default, args, kwargs)
    if node.op in _PRODUCTS_OF_TWO and not is_finite(*(value for value in args if _is_real(value))):
        return multiply([_tensor(value) for value in args], **kwargs)
    if node.op == _CONVOLVE and double and (made := convolved(args)) is not None:
        return made
    if operation in RESIZING and not is_finite(_tensor(args[0])):
        return RESIZING[operation](*args, **kwargs)
    result = _result(operation, args, kwargs)
    if not double and _base(node) in _NORMS and args[1:2] in ([], [2], [2.0]) and not kwargs:
        return _squared(_tensor(args[0]), _tensor(result))
    if double and _base(node) in _FOLDING and not is_finite(*(value for value in args if _is_real(value))):
        assert isinstance(result, tuple)
        return (normalised(_base(node), args, mean_and_variance), *result[1:])
    return result


def _result(operation: OpOverload, args: Sequence[object], kwargs: Mapping[str, Any]) -> Result:
    """Call an operation."""
    try:
        result: Result = operation(*args, **kwargs)
    except (RuntimeError, IndexError) as error:
        if lacks_memory(str(error)) or isinstance(error, torch.AcceleratorError):  # A fault of the machine.
            raise
        raise ReferenceFailed(f"{operation} raised {first_line(error)}") from error
    return result


def _squared(x: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
    """Return a norm as the root of a square where it is of one element each, whose magnitude torch itself returns.

    Its square may be zero or infinite, as with several elements: kernels are not held to a special case.
    """
    if norm.numel() != x.numel() or norm.dtype != x.dtype:
        return norm
    wide = x.reshape(norm.shape).to(torch.promote_types(x.dtype, torch.float32))
    return wide.square().sqrt().to(norm.dtype)


def normalised(name: str, args: Sequence[Any], statistics: Statistics) -> torch.Tensor:
    """Return a layer, group or batch norm by its definition, (x - mean) / deviation * weight + bias.

    Args:
        name: Name of the operation, without its overload.
        args: Its arguments.
        statistics: What takes mean and variance. A batch norm may be given them.
    """
    x = args[0]
    if name == "native_layer_norm":
        (weight, bias, epsilon), along = args[2:5], x.shape[x.dim() - len(args[1]) :]
        rows, axes = x, list(range(x.dim() - len(args[1]), x.dim()))
    else:
        (weight, bias), epsilon, along = args[1:3], args[7], (-1, *(1 for _ in x.shape[2:]))
        is_group = name == "native_group_norm"
        rows = x.reshape(x.shape[0], args[6], -1) if is_group else x
        axes = [2] if is_group else [axis for axis in range(x.dim()) if axis != 1]
    if name == "native_batch_norm" and not args[5]:
        mean, variance = (each.reshape(along) for each in args[3:5])
    else:
        mean, variance = statistics(rows, axes)
    scaled = ((rows - mean) * torch.rsqrt(variance + epsilon)).reshape(x.shape)
    scaled = scaled if weight is None else scaled * weight.reshape(along)
    found: torch.Tensor = scaled if bias is None else scaled + bias.reshape(along)
    return found


def mean_and_variance(rows: torch.Tensor, axes: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and variance of values along axes, which stay, with size 1."""
    return rows.mean(axes, keepdim=True), rows.var(axes, correction=0, keepdim=True)


def _casts_nothing(args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Return True if a cast is to the tensor's own dtype.

    In float64 most casts are; copies would cost memory where inputs of 5 GB already take 18 GB.
    """
    return kwargs.keys() == {"dtype"} and kwargs["dtype"] is _tensor(args[0]).dtype


@cache
def _operation(op: str) -> OpOverload:
    namespace, name, overload = op.split(".")
    if namespace != "aten" or not is_allowed(name, overload):
        raise ValueError(f"a reference graph may not contain {op}")
    found: OpOverload = getattr(getattr(torch.ops.aten, name), overload)
    return found


@cache
def _is_factory(operation: OpOverload) -> bool:
    arguments = operation._schema.arguments
    takes_tensor = any("Tensor" in str(argument.type) for argument in arguments)
    return not takes_tensor and any(argument.name == "device" for argument in arguments)


def _resolve(value: object, given: Sequence[torch.Tensor], values: Sequence[Result], double: bool) -> object:
    match value:
        case NodeRef():
            result = values[value.node] if value.node < len(values) else None
            return result if value.result is None or result is None else result[value.result]
        case InputRef():
            return given[value.input]
        case DtypeRef():
            dtype: torch.dtype = getattr(torch, value.dtype)
            return torch.float64 if double and dtype.is_floating_point else dtype
        case tuple() | list():
            return [_resolve(item, given, values, double) for item in value]
        case str():
            return NON_FINITE.get(value, value)
    return value


def _spent_after(graph: Graph) -> dict[int, list[int]]:
    """Nodes whose value nobody needs after a node, by that node's index."""
    last: dict[int, int] = {}
    for index, node in enumerate(graph.nodes):
        last |= {used.node: index for used in node.uses if isinstance(used, NodeRef)}
    kept = {output.node for output in graph.outputs if isinstance(output, NodeRef)}
    spent: dict[int, list[int]] = {}
    for used, index in last.items():
        if used not in kept:
            spent.setdefault(index, []).append(used)
    return spent
