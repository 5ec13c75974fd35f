"""Host code written from symbolic plans, which contain formulas and names to resolve, but no code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.export.extraction import ExtractedFunctions, NotExtractable
from service.export.formulas import all_same, expression, listed, number, product, quotient, require_divided
from service.export.layouts import layout
from service.export.variants import ExportedFunction, buffers_in, places_in
from service.export.vocabulary import DTYPES
from workers.protocol import DTYPE_BYTES, Operator
from workers.protocol.extent import terms_of_extent
from workers.protocol.formula import Term, combine, same
from workers.protocol.plan import gathered
from workers.protocol.symbolic import (
    SymbolicDescriptor,
    SymbolicLaunch,
    SymbolicNumber,
    SymbolicPointer,
    SymbolicStep,
    SymbolicView,
)
from workers.protocol.tags import untagged

DESCRIPTOR, GLUON_DESCRIPTOR = "TensorDescriptor", "GluonDescriptor"
"""Names of the classes of descriptors in host code, Triton's and Gluon's."""
WIDTH = 110
"""Maximum length of a call's line before each argument gets its own line."""
INDENT = "    "


@dataclass(frozen=True)
class HostTensor:
    """Whole buffer in host code: a contiguous tensor from its first byte to its last; `sizes` names the sizes."""

    name: str
    shape: tuple[Term, ...]
    dtype: str
    sizes: Mapping[str, str]

    @property
    def bytes(self) -> Term:
        """Size of the tensor in bytes."""
        return combine("*", product(self.shape), DTYPE_BYTES[self.dtype])

    def part(self, offset_bytes: Term, end_bytes: Term, dtype: str) -> str:
        """Write the expression for a flat range of its bytes, in some dtype.

        Raises:
            NotExtractable: If the range is not aligned to elements at all sizes.
        """
        is_whole = same(offset_bytes, 0) and same(end_bytes, self.bytes)
        if is_whole and dtype == self.dtype:
            return self.name
        size = DTYPE_BYTES[dtype]
        first, end = (require_divided(each, size, dtype) for each in (offset_bytes, end_bytes))
        require_divided(self.bytes, size, dtype)
        flat = self.name if len(self.shape) == 1 else f"{self.name}.view(-1)"
        renamed = flat if dtype == self.dtype else f"{flat}.view(torch.{dtype})"
        return renamed if is_whole else f"{renamed}[{expression(first, self.sizes)} : {expression(end, self.sizes)}]"

    def view(self, view: SymbolicView) -> str:
        """Write the expression for a strided view of it."""
        contiguous = all_same(view.strides, strides_of(view.shape))
        if contiguous and view.offset_bytes == 0 and all_same(view.shape, self.shape) and view.dtype == self.dtype:
            return self.name
        flat = self.part(view.offset_bytes, view.end_bytes, view.dtype)
        shape = listed(view.shape, self.sizes)
        return (
            f"{flat}.view({shape})" if contiguous else f"{flat}.as_strided({shape}, {listed(view.strides, self.sizes)})"
        )


def strides_of(shape: Sequence[Term]) -> tuple[Term, ...]:
    """Return the strides of a contiguous tensor, in elements."""
    return tuple(product(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass(frozen=True)
class TensorNames:
    """Names of tensors, scalars and sizes in host code: the operator's, changed only where they clash."""

    inputs: tuple[str, ...]
    upstream: tuple[str, ...]
    outputs: tuple[str, ...]
    scalars: tuple[str, ...]
    sizes: Mapping[str, str]


def anchor_of(operator: Operator) -> int:
    """Return the index of the first input that is always given: its device is that of all."""
    return next(at for at, item in enumerate(operator.inputs) if not item.optional)


class HostCodeWriter:
    """Writer of the host functions of one symbolic plan, for one choice of what Triton may assume."""

    def __init__(
        self,
        function: ExportedFunction,
        operator: Operator,
        names: TensorNames,
        code: ExtractedFunctions,
        layouts: dict[str, str],
    ) -> None:
        """Prepare the writer of a plan.

        Args:
            function: The plan.
            operator: Its operator.
            names: Names of its tensors.
            code: Its device functions.
            layouts: Names of Gluon's layouts by their expressions; the writer adds those that it uses.

        Raises:
            NotExtractable: If its results share memory.
        """
        self._layouts = layouts
        self._function_of, self._plan, self._code = function, function.plan, code
        self._names = names
        plan = function.plan
        self._outputs = plan.outputs[: len(operator.outputs)]
        self._gradients = plan.outputs[len(operator.outputs) :]
        buffers = [view.buffer for view in plan.outputs]
        if len(set(buffers)) < len(buffers) or any(plan.buffers[each].input is not None for each in buffers):
            raise NotExtractable("its results share memory")
        given = zip((*names.inputs, *names.upstream), operator.given, strict=True)
        fixed = function.fixed(operator)
        self._given = [
            HostTensor(name, tuple(_known(extent, fixed) for extent in item.shape), item.dtype, names.sizes)
            for name, item in given
        ]
        self._device = f"device={names.inputs[anchor_of(operator)]}.device"

    def forward(self, name: str) -> str:
        """Write the function that returns the outputs."""
        steps = self._plan.steps[: self._boundary()]
        made = dict(enumerate(self._given[: len(self._names.inputs)]))
        return self._function(name, self._names.inputs, made, steps, self._outputs)

    def backward(self, name: str) -> str:
        """Write the function from the outputs' gradients, inputs and outputs to the inputs' gradients.

        Raises:
            NotExtractable: If the plan passes it more than that.
        """
        made = dict(enumerate(self._given))
        for output, view in zip(self._names.outputs, self._outputs, strict=True):
            made[view.buffer] = HostTensor(output, view.shape, view.dtype, self._names.sizes)
            whole = same(made[view.buffer].bytes, self._plan.buffers[view.buffer].bytes) and view.offset_bytes == 0
            if not whole or not all_same(view.strides, strides_of(view.shape)):
                raise NotExtractable("its gradients use memory around an output")
        parameters = (*self._names.upstream, *self._names.inputs, *self._names.outputs)
        return self._function(name, parameters, made, self._plan.steps[self._boundary() :], self._gradients)

    def _boundary(self) -> int:
        """Return the index of the first step of the backward pass: the first use of an output's gradient.

        Allocations and fills right before it belong to it. No earlier step can depend on a gradient, because the
        candidate's forward function never saw one.
        """
        if not self._gradients:
            return len(self._plan.steps)
        upstream = set(range(len(self._names.inputs), len(self._given)))
        uses = (at for at, step in enumerate(self._plan.steps) if upstream & buffers_in(step))
        at = next(uses, len(self._plan.steps))
        results = {view.buffer for view in self._outputs}
        while at and self._plan.steps[at - 1].op in ("allocate", "fill"):
            if buffers_in(self._plan.steps[at - 1]) & results:
                break
            at -= 1
        return at

    def _function(
        self,
        name: str,
        parameters: Sequence[str],
        tensors: dict[int, HostTensor],
        steps: Sequence[SymbolicStep],
        results: Sequence[SymbolicView],
    ) -> str:
        lines = [f"def {name}({', '.join((*parameters, *self._names.sizes.values()))}):"]
        for step in steps:
            if step.op == "allocate":
                tensors[step.buffer] = self._whole(step.buffer)
            if not buffers_in(step) <= tensors.keys():
                raise NotExtractable("its backward function uses values of the forward function that are not outputs")
            lines += [INDENT + line for line in self._step(step, tensors)]
        lines.append(f"{INDENT}return {', '.join(tensors[view.buffer].view(view) for view in results)}")
        return "\n".join(lines)

    def _step(self, step: SymbolicStep, tensors: Mapping[int, HostTensor]) -> list[str]:
        if step.op == "allocate":
            made = tensors[step.buffer]
            shape = listed(made.shape, self._names.sizes)
            return [f"{made.name} = torch.empty({shape}, dtype=torch.{made.dtype}, {self._device})"]
        if step.op == "fill":
            return [f"{tensors[step.target.buffer].view(step.target)}.fill_({number(step.value)})"]
        if step.op == "copy":
            source = tensors[step.source.buffer].view(step.source)
            return [f"{tensors[step.target.buffer].view(step.target)}.copy_({source})"]
        return self._launch(step, tensors)

    def _whole(self, buffer: int) -> HostTensor:
        """Return a buffer with an output's shape and dtype, else flat with the dtype of its first use."""
        plan, size = self._plan, self._plan.buffers[buffer].bytes
        name, sizes = f"b{buffer}", self._names.sizes
        for view in plan.outputs:
            made = HostTensor(name, view.shape, view.dtype, sizes)
            if view.buffer == buffer and all_same(view.strides, strides_of(view.shape)) and same(made.bytes, size):
                return made
        used = [each.dtype for step in plan.steps for each in places_in(step) if each.buffer == buffer]
        for dtype in (*used, "uint8"):
            elements = quotient(size, DTYPE_BYTES[dtype])
            if elements is not None:
                return HostTensor(name, (elements,), dtype, sizes)
        raise NotExtractable("a buffer has no whole number of bytes")

    def _launch(self, step: SymbolicLaunch, tensors: Mapping[int, HostTensor]) -> list[str]:
        parts = {name: self._constant(value) for name, value in step.constants.items()}
        for name, value in zip(step.parameters, step.arguments, strict=True):
            parts[name] = self._argument(value, tensors)
        order = self._code.parameters[step.function]
        try:
            given = gathered(parts)
        except ValueError as error:
            raise NotExtractable(str(error)) from error
        if set(order) != given.keys():
            raise NotExtractable(f"parameters of {step.function!a:.80} differ from those of the launch")
        arguments, named = [], False
        for parameter in order:
            named = named or parameter in step.constants
            said = _whole(given[parameter])
            arguments.append(f"{parameter}={said}" if named else said)
        grid = listed(step.grid, self._names.sizes)
        launched = self._function_of.launched(step)
        options = [f"{name}={value}" for name, value in step.options.items() if value is not None and name not in order]
        return _call(f"{launched}[{grid}]", [*arguments, *options])

    def _argument(
        self, value: SymbolicPointer | SymbolicNumber | SymbolicDescriptor, tensors: Mapping[int, HostTensor]
    ) -> str:
        if value.kind == "pointer":
            end_bytes = combine("+", value.offset_bytes, value.extent_bytes)
            return tensors[value.buffer].part(value.offset_bytes, end_bytes, value.dtype)
        if value.kind == "descriptor":
            return self._descriptor(value, tensors)
        return expression(value.value, self._names.sizes)

    def _descriptor(self, value: SymbolicDescriptor, tensors: Mapping[int, HostTensor]) -> str:
        place = tensors[value.buffer].part(value.offset_bytes, value.end_bytes, value.dtype)
        shape, strides = (listed(part, self._names.sizes) for part in (value.shape, value.strides))
        padding = ', padding="nan"' if value.nan_fill else ""
        rounding = ", round_f32_to_tf32=True" if value.tf32 else ""
        given = f"{place}, {shape}, {strides}, {list(value.block)}"
        if value.layout is None:
            return f"{DESCRIPTOR}({given}{padding}{rounding})"
        return f"{GLUON_DESCRIPTOR}({given}, {self._layout(value.layout)}{padding}{rounding})"

    def _layout(self, text: str) -> str:
        """Return the name of a layout, which is made once per module: making one takes as long as a launch."""
        return self._layouts.setdefault(layout(text), f"layout_{len(self._layouts)}")

    def _constant(self, value: bool | int | float | str | None) -> str:
        """Write a compile-time value; plans hold values other than numbers as text with a tag for the kind."""
        if not isinstance(value, str):
            return "None" if value is None else number(value)
        tag, name = untagged(value)
        if tag == "dtype" and name in DTYPES:
            return f"tl.{DTYPES[name]}"
        if tag == "torch" and name in DTYPE_BYTES:
            return f"torch.{name}"
        if tag == "function" and name in self._code.functions:
            return name
        if tag == "layout":
            return self._layout(name)
        if tag != "text":
            raise NotExtractable(f"a launch passes an unknown {tag}")
        if not name.isascii():
            raise NotExtractable("a launch passes a text that is not ASCII")
        return repr(name)


def _known(extent: str | int, fixed: Mapping[str, int]) -> Term:
    total: Term = 0
    for factors in terms_of_extent(extent):
        term: Term = 1
        for each in factors:
            term = combine("*", term, fixed.get(each, each) if isinstance(each, str) else each)
        total = combine("+", total, term)
    return total


def _whole(said: object) -> str:
    """Write an argument, a tuple from its parts."""
    return f"({''.join(f'{_whole(part)}, ' for part in said).rstrip()})" if isinstance(said, tuple) else str(said)


def _call(head: str, arguments: Sequence[str]) -> list[str]:
    line = f"{head}({', '.join(arguments)})"
    if len(line) <= WIDTH:
        return [line]
    return [f"{head}(", *(f"{INDENT}{each}," for each in arguments), ")"]
