"""Reference export: turns an operator's PyTorch reference into graphs of ATen calls, one per shape.

Runs inside the sandbox. The reference's Python sees tensors without data, so it can neither read values nor run long.
The graph is checked again when it is evaluated.
"""

import ast
import json
import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import flop_registry

from workers.errors import first_line
from workers.protocol import DTYPE_BYTES, DtypeRef, Graph, InputRef, Node, NodeRef, Operator, Outcome, Shape, TraceJob
from workers.reference import is_allowed
from workers.tracer.constants import ConstantReplay, Recorder
from workers.tracer.gradients import NotDifferentiable, differentiate
from workers.tracer.modes import DispatchMode
from workers.tracer.recurrent import NAMESPACE as LAYERS
from workers.tracer.recurrent import WholeLayers, operation_of
from workers.tracer.refusal import NotExportable
from workers.tracer.without_card import CARD, without_card
from workers.tracer.written_out import WRITTEN_OUT, by_torch

FILENAME = "<reference>"
"""File name of the reference in tracebacks."""

HINTS = {
    "_local_scalar_dense": "it reads a tensor's value on the host (item, float, bool, if, or an index that is a tensor "
    "of one number, as in x[i]); use torch.where, or x[i.view(1)]",
    "nonzero": "the size of its result depends on values (nonzero, boolean indexing); use torch.where or masked_fill",
    "repeat_interleave": "the size of its result depends on values; give its output_size",
    "masked_select": "the size of its result depends on values; use torch.where or masked_fill",
    "_unique2": "the size of its result depends on values; sort, and mark the first of equal values",
    "median": "take it from a sort, as in x.sort(-1).values[..., (x.shape[-1] - 1) // 2]",
    "bincount": "the size of its result depends on values; add ones to zeros of a fixed size by scatter_add",
    "histc": "references may not use it; add ones to zeros by scatter_add",
    "view": "it reads the bits of a tensor as another dtype; take the tensor as an input of that dtype",
    "_int_mm": "write it out, (a.float() @ b.float()), which is exact below 2**24",
    "_scaled_mm": "write it out, (a.float() * scale_a) @ (b.float() * scale_b)",
    "_grouped_mm": "write it out, with a mask or torch.bmm for the groups",
    "bernoulli": "it draws random numbers; take them as an input",
    "native_dropout": "it draws random numbers; leave dropout out of the reference",
}
"""Remedies for operations that people are likely to try."""
UNLISTED = "references may not use it; compute it outside, and take its result as an argument"
"""Remedy for all other operations."""
FAMILIES = {
    "_fft": f"there is no Fourier transform: {UNLISTED}",
    **dict.fromkeys(
        ("sparse_", "_sparse_", "to_sparse", "_to_sparse"),
        "it makes a sparse tensor; take its indices and values as arguments, and multiply by gather and scatter_add",
    ),
    **dict.fromkeys(("linalg_", "_linalg_"), f"there is no factorisation of matrices: {UNLISTED}"),
}
"""Remedies by the beginnings of names."""

OWN_FILES = "put what it needs into one file, or call kernelreef.search(function, inputs) where it can be imported"
"""Remedy for text that imports other files."""
_REFUSAL = "the reference calls {}: {}"
_AUTOCAST = (
    "the reference computes under torch.autocast, where only PyTorch knows the dtype of each step: write its casts "
    "out, such as x.bfloat16()"
)

INDEXING = ("index", "gather", "scatter", "embedding", "_embedding_bag", "take", "put", "nll_loss")
"""Beginnings of the names of operations that take indices."""
WRITING = ("index_put", "index_copy", "scatter")
"""Operations that overwrite the elements at their indices."""

RAISED = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(NameError, RuntimeError, TypeError, ValueError),
)
"""Exceptions that faulty Python of others raises; any other exception means that our machine failed."""


@dataclass(frozen=True)
class Entry:
    """The reference's function, which takes the operator's inputs, then its scalars.

    Attributes:
        function: The function.
        recorder: Record of the tensors that the reference's text makes.
    """

    function: Callable[..., object]
    recorder: Recorder

    def __call__(self, *arguments: object) -> tuple[object, ...]:
        """Call the function. Tensors that the reference's text made become operations of the graph."""
        with without_fast_paths(), ConstantReplay(self.recorder), without_card():
            results = self.function(*arguments)
        if results is None:
            return ()
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)


@contextmanager
def without_fast_paths() -> Iterator[None]:
    """Let modules compute by plain operations: fused ones for inference, or for a CPU, are no definition."""
    attention, onednn = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(attention)
        torch._C._set_mkldnn_enabled(onednn)


def export(request: bytes) -> bytes:
    """Export the reference of a `TraceJob` without a source, for every shape of the job.

    Returns:
        JSON: `{"graphs": [...]}` in the order of the job's shapes, or `{"outcome", "reason", "line"}`.
    """
    job = TraceJob.model_validate_json(request)
    try:
        entry = load_entry(job.operator)
        graphs = [_export_shape(entry, job.operator, shape) for shape in job.shapes]
    except NotExportable as refusal:
        return _refuse(refusal.outcome, refusal.reason, line_of(refusal))
    except NotDifferentiable as error:
        return _refuse(Outcome.FORBIDDEN_OP, str(error), line_of(error))
    except SyntaxError as error:
        return _refuse(Outcome.SYNTAX_ERROR, f"the reference does not parse: {error.msg}", error.lineno)
    except ImportError as error:
        return _refuse(Outcome.FORBIDDEN_IMPORT, f"the reference {cannot_import(error)}", line_of(error))
    except DynamicOutputShapeException as error:
        return _refuse(Outcome.FORBIDDEN_OP, _REFUSAL.format(error.func, HINTS["nonzero"]), line_of(error))
    except RAISED as error:
        return _refuse(Outcome.TRACE_CRASHED, f"the reference raised {first_line(error)}", line_of(error))
    return json.dumps({"graphs": [graph.model_dump(mode="json") for graph in graphs]}).encode()


def _refuse(outcome: Outcome, reason: str, line: int | None) -> bytes:
    return json.dumps({"outcome": outcome, "reason": reason, "line": line}).encode()


def line_of(error: BaseException) -> int | None:
    """Return the reference's innermost line that an exception passed; None if there is none."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILENAME]
    return lines[-1] if lines else None


def cannot_import(error: ImportError) -> str:
    """Return the predicate of a sentence about text whose import failed."""
    package = (error.name or "").partition(".")[0]
    if not package:
        return f"cannot import from its own package: {OWN_FILES}"
    if not isinstance(error, ModuleNotFoundError):
        return f"cannot import a name from {error.name}"
    return (
        f"cannot import {error.name}: it is not installed on this host; install {package} beside Kernelreef. If it is "
        f"a file of yours: {OWN_FILES}"
    )


def remedy_for(dtype: str) -> str:
    """Return the way around a dtype that tensors cannot have."""
    if dtype.startswith("complex"):
        return (
            "pass numbers as pairs with a last axis of 2, and use torch.view_as_complex and torch.view_as_real inside"
        )
    return f"known are {', '.join(DTYPE_BYTES)}"


def load_entry(operator: Operator) -> Entry:
    """Load the reference's function.

    Raises:
        NotExportable: If the reference does not define it.
    """
    namespace: dict[str, object] = {"__name__": "reference", "__package__": ""}
    with Recorder() as recorder, without_card():
        exec(compile(ast.parse(operator.reference, FILENAME), FILENAME, "exec"), namespace)
    entry = namespace.get(operator.entry)
    if not callable(entry):
        raise NotExportable(Outcome.FORBIDDEN_OP, f"the reference does not define a function '{operator.entry}'")
    return Entry(entry, recorder)


def _export_shape(entry: Entry, operator: Operator, shape: Shape) -> Graph:
    scalars = operator.scalar_values(shape.dims)
    with FakeTensorMode(), torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        given = [
            torch.empty(operator.input_shape(item, shape.dims), dtype=getattr(torch, item.dtype))
            for item in operator.given
        ]

        def called(*tensors: torch.Tensor) -> tuple[object, ...]:
            return _results(entry(*operator.arguments(tensors, shape.dims), *scalars), operator, tensors)

        def guarded(*tensors: torch.Tensor) -> tuple[object, ...]:
            with OperationGuard(_fixed(operator, tensors)):
                if operator.backward:
                    return differentiate(called, operator, tensors)
                with WholeLayers():
                    return called(*tensors)

        traced = make_fx(guarded)(*given)
    return _translate(traced, operator, shape)


def _fixed(operator: Operator, given: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the inputs whose content is no output, by name."""
    written = operator.in_place.values()
    return {item.name: given[index] for index, item in enumerate(operator.given) if index not in written}


def _results(returned: tuple[object, ...], operator: Operator, given: Sequence[torch.Tensor]) -> tuple[object, ...]:
    """Return the results of a call: what it returned, and the contents of inputs that are outputs."""
    if len(returned) + len(operator.in_place) != len(operator.outputs):
        return returned
    own = iter(returned)
    numbers = range(len(operator.outputs))
    return tuple(given[operator.in_place[number]] if number in operator.in_place else next(own) for number in numbers)


class OperationGuard(DispatchMode):
    """Mode that refuses an operation where the reference calls it, so that the refusal has the reference's line."""

    def __init__(self, inputs: Mapping[str, torch.Tensor], *, changes: bool = False) -> None:
        """Take inputs by name: those that the reference must not change, or with `changes` those that it may."""
        super().__init__()
        self._changes = changes
        self.changed: set[str] = set()
        """Names of inputs that were changed in place."""
        self.calls = 0
        """Number of operations so far."""
        self.default_tf32 = False
        """True if an operation ran that PyTorch's defaults compute with TF32: a convolution, or a recurrent layer."""
        self.indexes = False
        """True if an operation ran that fails where an index lies outside."""
        self.places: set[str] = set()
        """Names of inputs that say where elements are written."""
        self._inputs = {tensor.untyped_storage()._cdata: name for name, tensor in inputs.items()}
        self._computed: dict[int, tuple[str, torch.Tensor]] = {}
        """Names of single inputs that integers are computed from, and these integers, by their memory."""

    def __torch_dispatch__(
        self,
        operation: OpOverload,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        name, overload = operation._schema.name.partition("::")[2], operation._overloadname
        self.calls += 1
        self.indexes = self.indexes or name.startswith(INDEXING)
        self.default_tf32 = self.default_tf32 or operation.namespace == LAYERS or "convolution" in name
        if torch.is_autocast_enabled(CARD):
            raise NotExportable(Outcome.FORBIDDEN_OP, _AUTOCAST)
        if operation.namespace == "prim":  # questions about a tensor, such as its device: no node
            return operation(*args, **(kwargs or {}))
        for argument, value in zip(operation._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for each in value if isinstance(value, list | tuple) else (value,):
                    self._note(operation, each)
        written_out = WRITTEN_OUT.get(operation)
        if written_out and (result := written_out(*args, **(kwargs or {}))) is not NotImplemented:
            return result
        if operation.namespace not in ("aten", LAYERS) or not is_allowed(name, overload):
            return self._defined(operation, name, args, kwargs or {})
        self._note_places(name, args)
        if name == "native_batch_norm" and args[5]:
            return self._normalised(operation, args)
        result = operation(*args, **(kwargs or {}))
        if torch.Tag.pointwise in operation.tags or name == "_to_copy":
            self._note_computed(args, result)
        return result

    def _note(self, operation: OpOverload, value: object) -> None:
        """Note an input that an operation writes to, or refuse that."""
        name = self._inputs.get(value.untyped_storage()._cdata) if isinstance(value, torch.Tensor) else None
        if name is not None:
            self.changed.add(name)
        if name is not None and not self._changes:
            raise NotExportable(
                Outcome.FORBIDDEN_OP,
                f"{operation} changes input '{name}' in place: make it mutable, and an output of the same name",
            )

    def _defined(self, operation: OpOverload, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Call an operation that is not on the list by PyTorch's own definition, if that takes listed ones alone."""
        definition = by_torch(operation)
        try:
            with self:
                result = NotImplemented if definition is None else definition(*args, **kwargs)
        except NotExportable as refusal:
            raise NotExportable(refusal.outcome, _forbidden(operation, name)) from refusal
        if result is NotImplemented:
            raise NotExportable(Outcome.FORBIDDEN_OP, _forbidden(operation, name))
        return result

    def _note_places(self, name: str, args: tuple[object, ...]) -> None:
        """Note inputs that say where an operation writes; where two of them are equal, either value may remain."""
        plain = name.removesuffix("_")
        if plain in WRITING and not (plain == "index_put" and args[3:4] == (True,)):
            places = args[1] if plain == "index_put" else args[2:3]
            for each in places if isinstance(places, list | tuple) else ():
                if isinstance(each, torch.Tensor):
                    self.places |= {self._source(each)} - {""}

    def _note_computed(self, args: tuple[object, ...], result: object) -> None:
        """Note integers and flags that elements of one input alone decide, such as `slots // 16`."""
        sources = {self._source(each) for each in args if isinstance(each, torch.Tensor) and each.dim()}
        if len(sources) == 1 and isinstance(result, torch.Tensor) and not result.is_floating_point():
            self._computed[result.untyped_storage()._cdata] = (sources.pop(), result)

    def _source(self, tensor: torch.Tensor) -> str:
        """Return the input that a tensor lies in or is computed from; empty if it is none, or no single one."""
        at = tensor.untyped_storage()._cdata
        return self._inputs.get(at, "") or self._computed.get(at, ("",))[0]

    def _normalised(self, operation: OpOverload, args: tuple[object, ...]) -> object:
        """Normalise a batch in training, with the update of its statistics written out: its schema hides that."""
        x, weight, bias, mean, var, _, momentum, _ = args
        result = operation(x, weight, bias, None, None, *args[5:])
        if not (isinstance(x, torch.Tensor) and isinstance(mean, torch.Tensor) and isinstance(var, torch.Tensor)):
            return result
        assert isinstance(momentum, float)
        for statistic in (mean, var):
            self._note(operation, statistic)
        axes, wide = [axis for axis in range(x.dim()) if axis != 1], x.to(mean.dtype)
        mean.mul_(1 - momentum).add_(wide.mean(axes), alpha=momentum)
        var.mul_(1 - momentum).add_(wide.var(axes, correction=1), alpha=momentum)
        return result


def _forbidden(operation: OpOverload, name: str) -> str:
    if torch.Tag.nondeterministic_seeded in operation.tags:
        hint = "it draws random numbers; take them as an input"
    else:
        family = next((hint for start, hint in FAMILIES.items() if name.startswith(start)), UNLISTED)
        hint = HINTS.get(name, family)
    return _REFUSAL.format(operation, hint)


def _translate(traced: fx.GraphModule, operator: Operator, shape: Shape) -> Graph:
    translation = _Translation(traced)
    for node in traced.graph.nodes:
        translation.add(node)
    results = [result.meta["val"] for result in translation.results]
    dtypes = tuple(str(result.dtype).removeprefix("torch.") for result in results)
    declared = tuple(output.dtype for output in operator.results)
    if dtypes != declared:
        raise NotExportable(
            Outcome.WRONG_OUTPUT_TYPE,
            f"the reference returns ({', '.join(dtypes)}), but the spec declares ({', '.join(declared)})",
        )
    flops = count_flops(traced.graph.nodes)
    return Graph(
        shape=shape,
        nodes=tuple(translation.nodes),
        outputs=tuple(translation.reference(result) for result in translation.results),
        output_shapes=tuple(tuple(result.shape) for result in results),
        output_dtypes=declared,
        matrix_flops=flops.matrix,
        other_flops=flops.other,
    )


class _Translation:
    """Translation of a traced graph: fx nodes to protocol nodes."""

    def __init__(self, traced: fx.GraphModule) -> None:
        self.nodes: list[Node] = []
        self.results: list[fx.Node] = []
        self._traced = traced
        self._references: dict[fx.Node, NodeRef | InputRef] = {}

    def reference(self, node: fx.Node) -> NodeRef | InputRef:
        """Return the protocol's reference to a value that was added."""
        return self._references[node]

    def add(self, node: fx.Node) -> None:
        """Translate one fx node."""
        if node.op == "placeholder":
            self._references[node] = InputRef(input=len(self._references))
        elif node.op == "get_attr":
            self._add_constant(node)
        elif node.op == "output":
            self._add_outputs(node.args[0])
        elif isinstance(node.target, OpOverload):
            target = operation_of(node.target.namespace, *str(node.target).split(".")[-2:])
            self._append(node, target, node.args, node.kwargs)
        else:  # operator.getitem on a call with several results
            source, index = node.args
            if not isinstance(source, fx.Node) or not isinstance(index, int):
                raise NotExportable(Outcome.FORBIDDEN_OP, f"the reference's graph contains {node.target}")
            owner = self._references[source]
            if not isinstance(owner, NodeRef):
                raise NotExportable(Outcome.FORBIDDEN_OP, f"the reference's graph contains {node.target}")
            self._references[node] = NodeRef(node=owner.node, result=index)

    def _append(self, node: fx.Node, op: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        self._references[node] = NodeRef(node=len(self.nodes))
        kept = {name: value for name, value in kwargs.items() if name not in ("device", "layout", "pin_memory")}
        self.nodes.append(
            Node.model_validate(
                {
                    "op": op,
                    "args": tuple(self._value(value) for value in args),
                    "kwargs": {name: self._value(value) for name, value in kept.items()},
                }
            )
        )

    def _add_constant(self, node: fx.Node) -> None:
        """Add a tensor constant of the reference; only single numbers are supported."""
        tensor = getattr(self._traced, str(node.target))
        if tensor.dim() != 0:
            raise NotExportable(
                Outcome.FORBIDDEN_OP,
                "the reference holds a tensor constant; build it with torch.arange, torch.full or take it as an input",
            )
        self._append(node, "aten.scalar_tensor.default", (tensor.item(),), {"dtype": tensor.dtype})

    def _add_outputs(self, results: object) -> None:
        for result in results if isinstance(results, (tuple, list)) else (results,):
            if not isinstance(result, fx.Node):
                raise NotExportable(Outcome.WRONG_OUTPUT_TYPE, "the reference must return tensors, alone or in a tuple")
            self.results.append(result)

    def _value(self, value: object) -> object:
        match value:
            case fx.Node():
                return self._references[value]
            case torch.dtype():
                return _dtype(value)
            case torch.memory_format():
                return str(value).removeprefix("torch.")
            case tuple() | list():
                return tuple(self._value(item) for item in value)
            case float() if not math.isfinite(value):
                return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return value


def _dtype(dtype: torch.dtype) -> DtypeRef:
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise NotExportable(Outcome.FORBIDDEN_OP, f"the reference uses dtype {name}: {remedy_for(name)}")
    return DtypeRef.model_validate({"dtype": name})


MOVES = frozenset(
    {"_to_copy", "_unsafe_view", "arange", "cat", "clone", "copy", "full", "gather", "index", "index_select", "ones"}
    | {"scalar_tensor", "stack", "zeros", "unsafe_split", "unsafe_split_with_sizes"}
)
"""Operations that only move, convert or write values."""


@dataclass(frozen=True)
class Flops:
    """Floating-point operations: of matrix products and convolutions, and of all others, one per element.

    They follow the reference's own formula. A kernel that skips needless work, such as the masked half of causal
    attention, takes fewer.
    """

    matrix: float = 0.0
    other: float = 0.0


def count_flops(nodes: Iterable[fx.Node]) -> Flops:
    """Count operations of a traced graph whose nodes know the shapes of their results."""
    matrix = other = 0.0
    for node in nodes:
        if not isinstance(node.target, OpOverload):
            continue
        formula = flop_registry.get(node.target.overloadpacket)
        if formula is not None:
            args, kwargs = tree_map_only(fx.Node, _value_of, (node.args, dict(node.kwargs)))
            matrix += float(formula(*args, **kwargs, out_val=_value_of(node)))
        elif not node.target.is_view and node.target._schema.name.partition("::")[2] not in MOVES:
            other += _elements(node)
    return Flops(matrix, other)


def _value_of(node: fx.Node) -> object:
    return node.meta["val"]


def _elements(node: fx.Node) -> float:
    """Return the size of the largest floating-point argument or result of an operation."""
    values = [node.meta.get("val"), *(each.meta.get("val") for each in node.all_input_nodes)]
    sizes = [prod(value.shape) for value in values if isinstance(value, torch.Tensor) and value.is_floating_point()]
    return float(max(sizes, default=0))
