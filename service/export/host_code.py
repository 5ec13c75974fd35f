"""Host code written from launch plans, which contain numbers and names to resolve, but no code."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.export.extraction import ExtractedFunctions, NotExtractable
from service.export.vocabulary import DTYPES
from workers.protocol import DTYPE_BYTES, HostDescriptor, Kernel, Launch, Operator, Plan, Pointer, View
from workers.protocol.plan import Step
from workers.protocol.tags import untagged

WIDTH = 110
"""Maximum length of a call's line before each argument gets its own line."""
INDENT = "    "


@dataclass(frozen=True)
class HostTensor:
    """Whole buffer in host code: a contiguous tensor from its first byte to its last."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Size of the tensor in bytes."""
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]

    def part(self, offset_bytes: int, end_bytes: int, dtype: str) -> str:
        """Write the expression for a flat range of its bytes, in some dtype.

        Raises:
            NotExtractable: If the range is not aligned to elements.
        """
        if (offset_bytes, end_bytes, dtype) == (0, self.bytes, self.dtype):
            return self.name
        size = DTYPE_BYTES[dtype]
        if offset_bytes % size or end_bytes % size or (dtype != self.dtype and self.bytes % size):
            raise NotExtractable(f"a plan uses bytes {offset_bytes} to {end_bytes} of a buffer as {dtype}")
        flat = self.name if len(self.shape) == 1 else f"{self.name}.view(-1)"
        renamed = flat if dtype == self.dtype else f"{flat}.view(torch.{dtype})"
        whole = (offset_bytes, end_bytes) == (0, self.bytes)
        return renamed if whole else f"{renamed}[{offset_bytes // size} : {end_bytes // size}]"

    def view(self, view: View) -> str:
        """Write the expression for a strided view of it."""
        contiguous = view.strides == strides_of(view.shape) or 0 in view.shape
        if contiguous and (view.offset_bytes, view.shape, view.dtype) == (0, self.shape, self.dtype):
            return self.name
        flat = self.part(view.offset_bytes, view.end_bytes, view.dtype)
        return f"{flat}.view({view.shape})" if contiguous else f"{flat}.as_strided({view.shape}, {view.strides})"


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass(frozen=True)
class TensorNames:
    """Names of tensors and scalars in host code: the operator's, changed only where they clash."""

    inputs: tuple[str, ...]
    upstream: tuple[str, ...]
    outputs: tuple[str, ...]
    scalars: tuple[str, ...]


class HostCodeWriter:
    """Writer of the host functions of one plan."""

    def __init__(
        self,
        plan: Plan,
        operator: Operator,
        names: TensorNames,
        kernels: Mapping[str, Kernel],
        code: ExtractedFunctions,
    ) -> None:
        """Prepare the writer of a plan with its tensors' names, its bundle's kernels and its device functions.

        Raises:
            NotExtractable: If its results share memory.
        """
        self._plan, self._kernels, self._code = plan, kernels, code
        self._names = names
        self._outputs = plan.outputs[: len(operator.outputs)]
        self._gradients = plan.outputs[len(operator.outputs) :]
        buffers = [view.buffer for view in plan.outputs]
        if len(set(buffers)) < len(buffers) or any(plan.buffers[each].input is not None for each in buffers):
            raise NotExtractable("its results share memory")
        given = zip((*names.inputs, *names.upstream), operator.given, strict=True)
        self._given = [
            HostTensor(name, operator.input_shape(item, plan.shape.dims), item.dtype) for name, item in given
        ]
        self._device = f"device={names.inputs[0]}.device"

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
            made[view.buffer] = HostTensor(output, view.shape, view.dtype)
            whole = made[view.buffer].bytes == self._plan.buffers[view.buffer].bytes and view.offset_bytes == 0
            if not whole or view.strides != strides_of(view.shape):
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
        uses = (at for at, step in enumerate(self._plan.steps) if upstream & _buffers(step))
        at = next(uses, len(self._plan.steps))
        results = {view.buffer for view in self._outputs}
        while at and self._plan.steps[at - 1].op in ("allocate", "fill"):
            if _buffers(self._plan.steps[at - 1]) & results:
                break
            at -= 1
        return at

    def _function(
        self,
        name: str,
        parameters: Sequence[str],
        tensors: dict[int, HostTensor],
        steps: Sequence[Step],
        results: Sequence[View],
    ) -> str:
        lines = [f"def {name}({', '.join(parameters)}):"]
        for step in steps:
            if step.op == "allocate":
                tensors[step.buffer] = self._whole(step.buffer)
            if not _buffers(step) <= tensors.keys():
                raise NotExtractable("its backward function uses values of the forward function that are not outputs")
            lines += [INDENT + line for line in self._step(step, tensors)]
        lines.append(f"{INDENT}return {', '.join(tensors[view.buffer].view(view) for view in results)}")
        return "\n".join(lines)

    def _step(self, step: Step, tensors: Mapping[int, HostTensor]) -> list[str]:
        if step.op == "allocate":
            made = tensors[step.buffer]
            return [f"{made.name} = torch.empty({made.shape}, dtype=torch.{made.dtype}, {self._device})"]
        if step.op == "fill":
            return [f"{tensors[step.target.buffer].view(step.target)}.fill_({number(step.value)})"]
        if step.op == "copy":
            source = tensors[step.source.buffer].view(step.source)
            return [f"{tensors[step.target.buffer].view(step.target)}.copy_({source})"]
        return self._launch(step, tensors)

    def _whole(self, buffer: int) -> HostTensor:
        """Return a buffer with an output's shape and dtype, else flat with the dtype of its first use."""
        plan, size = self._plan, self._plan.buffers[buffer].bytes
        name = f"b{buffer}"
        for view in plan.outputs:
            made = HostTensor(name, view.shape, view.dtype)
            if view.buffer == buffer and view.strides == strides_of(view.shape) and made.bytes == size:
                return made
        used = [each.dtype for step in plan.steps for each in _places(step) if each.buffer == buffer]
        dtype = next((each for each in used if size % DTYPE_BYTES[each] == 0), "uint8")
        return HostTensor(name, (size // DTYPE_BYTES[dtype],), dtype)

    def _launch(self, step: Launch, tensors: Mapping[int, HostTensor]) -> list[str]:
        values = dict(zip(step.parameters, step.arguments, strict=False))
        order = self._code.parameters[step.function]
        if len(step.arguments) != len(values) or set(order) != values.keys() | step.constants.keys():
            raise NotExtractable(f"parameters of {step.function!a:.80} differ from those of the launch")
        arguments, named = [], False
        for parameter in order:
            named = named or parameter in step.constants
            value = values.get(parameter)
            if value is None:
                said = self._constant(step.constants[parameter])
            elif isinstance(value, Pointer):
                end_bytes = value.offset_bytes + value.extent_bytes
                said = tensors[value.buffer].part(value.offset_bytes, end_bytes, value.dtype)
            elif isinstance(value, HostDescriptor):
                raise NotExtractable(
                    f"a launch passes a tensor descriptor as '{parameter}', which packages do not make"
                )
            else:
                said = number(value.value)
            arguments.append(f"{parameter}={said}" if named else said)
        return _call(f"{step.function}[{step.grid}]", [*arguments, *self._options(step, order)])

    def _options(self, step: Launch, order: Sequence[str]) -> list[str]:
        kernel = self._kernels[step.kernel]
        if kernel.num_warps & (kernel.num_warps - 1):
            raise NotExtractable("its warps are specialised, and its plan does not say how many were requested")
        said: dict[str, int | None] = {"num_warps": kernel.num_warps, "num_stages": kernel.num_stages}
        if kernel.num_ctas > 1:
            said["num_ctas"] = kernel.num_ctas
        said["maxnreg"] = kernel.max_registers
        return [f"{name}={value}" for name, value in said.items() if value is not None and name not in order]

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
        if tag != "text":
            raise NotExtractable(f"a launch passes an unknown {tag}")
        if not name.isascii():
            raise NotExtractable("a launch passes a text that is not ASCII")
        return repr(name)


def functions_in(plan: Plan) -> set[str]:
    """Return the names of functions that a plan launches or passes to launches."""
    launched = {step.function for step in plan.launches}
    values = (value for step in plan.launches for value in step.constants.values() if isinstance(value, str))
    return launched | {name for tag, name in map(untagged, values) if tag == "function"}


def number(value: bool | int | float) -> str:
    """Write a number as a Python expression."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value!r}")'
    return repr(value)


def _places(step: Step) -> tuple[View | Pointer | HostDescriptor, ...]:
    if step.op == "launch":
        return step.memory
    if step.op == "copy":
        return (step.source, step.target)
    return (step.target,) if step.op == "fill" else ()


def _buffers(step: Step) -> set[int]:
    return {step.buffer} if step.op == "allocate" else {each.buffer for each in _places(step)}


def _call(head: str, arguments: Sequence[str]) -> list[str]:
    line = f"{head}({', '.join(arguments)})"
    if len(line) <= WIDTH:
        return [line]
    return [f"{head}(", *(f"{INDENT}{each}," for each in arguments), ")"]
