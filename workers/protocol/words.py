"""Description of a plan in words: one line per step, for people who check a plan by reading."""

from collections.abc import Mapping, Sequence
from math import prod

from workers.protocol.base import printable
from workers.protocol.operator import DTYPE_BYTES
from workers.protocol.plan import Allocate, Argument, Buffer, Bundle, Copy, Fill, Kernel, Launch, Plan, View
from workers.protocol.report import Readings

_UNITS = ("B", "KiB", "MiB", "GiB")


def describe(bundle: Bundle, plan_index: int = 0, readings: Readings | None = None) -> list[str]:
    """Describe what one plan of a bundle will do.

    Args:
        bundle: The plans and their kernels.
        plan_index: Index of the plan.
        readings: Readings of that plan, if known.

    Raises:
        IndexError: If the bundle has no such plan.
    """
    plan = bundle.plans[plan_index]
    chosen = ", ".join(f"{_plain(name)} = {_value(value)}" for name, value in sorted(bundle.configuration.items()))
    head = f"plan {plan_index + 1} of {len(bundle.plans)} for {_plain(bundle.target)}"
    lines = [head + (f", configuration {chosen}" if chosen else "")]
    lines += describe_plan(plan, bundle.kernels)
    return lines + (describe_readings(readings) if readings else [])


def describe_plan(plan: Plan, kernels: Mapping[str, Kernel]) -> list[str]:
    """Describe what a plan will do: its shape, its inputs, its steps in order, its outputs.

    Args:
        plan: The plan.
        kernels: The kernels that it launches, by digest.
    """
    lines = [f"shape {plan.shape.key} ({plan.shape.role.value.replace('_', ' ')})"]
    for buffer in plan.buffers:
        if buffer.input is not None:
            lines.append(f"given: {_name(buffer)}, {_bytes(buffer.bytes)}")
    for number, step in enumerate(plan.steps, start=1):
        lines.append(f"{number}. {_describe_step(step, plan.buffers, kernels)}")
    if not plan.steps:
        lines.append("no steps")
    for index, view in enumerate(plan.outputs):
        lines.append(f"output {index}: {_view(view, plan.buffers)}")
    return lines


def describe_readings(readings: Readings) -> list[str]:
    """Describe the readings of a plan's machine code, without unknown ones."""
    facts = [
        (readings.registers, "{} registers a thread"),
        (readings.spill_bytes, "{} bytes spilled"),
        (readings.shared_bytes, "{} bytes of shared memory a program"),
        (readings.load_width_bytes, "loads up to {} bytes wide"),
        (readings.memory_path, "{} memory path"),
        (readings.tensor_core, "tensor core {}"),
    ]
    said = [text.format(value) for value, text in facts if value is not None]
    if readings.occupancy is not None:
        said.append(f"occupancy {readings.occupancy:.0%}")
    if readings.persistent:
        said.append("persistent")
    if readings.open_barriers:
        said.append(f"{readings.open_barriers} barriers left open: may be wrong on a card that it has to share")
    moved = [] if readings.bytes_required is None else [f"must move {_bytes(readings.bytes_required)}"]
    if readings.bytes_moved is not None:
        moved.append(f"moves {_bytes(readings.bytes_moved)}")
    return [f"machine code: {', '.join(said)}"] * bool(said) + [f"memory: {', '.join(moved)}"] * bool(moved)


def _describe_step(
    step: Allocate | Fill | Copy | Launch, buffers: Sequence[Buffer], kernels: Mapping[str, Kernel]
) -> str:
    if isinstance(step, Allocate):
        return f"allocate {_name(buffers[step.buffer])}: {_bytes(buffers[step.buffer].bytes)}"
    if isinstance(step, Fill):
        return f"fill {_view(step.target, buffers)} with {_value(step.value)}"
    if isinstance(step, Copy):
        return f"copy {_view(step.source, buffers)} to {_view(step.target, buffers)}"
    return _describe_launch(step, buffers, kernels[step.kernel])


def _describe_launch(launch: Launch, buffers: Sequence[Buffer], kernel: Kernel) -> str:
    programs = prod(launch.grid)
    grid = "" if launch.grid[1:] == (1, 1) else f" ({' x '.join(map(str, launch.grid))})"
    warps = f"{kernel.num_warps} warp{'s' * (kernel.num_warps != 1)}"
    clusters = f" in {kernel.num_ctas} blocks" if kernel.num_ctas > 1 else ""
    named = len(launch.parameters) == len(launch.arguments)
    names = launch.parameters if named else tuple(f"argument {index}" for index in range(len(launch.arguments)))
    passed = [f"{name} = {_argument(item, buffers)}" for name, item in zip(names, launch.arguments, strict=True)]
    fixed = [f"{name} = {_value(value)}" for name, value in launch.constants.items()]
    said = "; ".join(", ".join(part) for part in (passed, fixed) if part)
    line = f" (line {launch.line})" if launch.line is not None else ""
    plural = "s" * (programs != 1)
    return (
        f"launch {_plain(launch.function)}{line} on {programs} program{plural}{grid} of {warps}{clusters} with {said}"
    )


def _argument(argument: Argument, buffers: Sequence[Buffer]) -> str:
    if argument.kind == "number":
        return _value(argument.value)
    place = f"{_name(buffers[argument.buffer])}{_offset(argument.offset_bytes)}"
    if argument.kind == "pointer":
        return f"{place} as {argument.dtype}"
    sizes, block = (" x ".join(map(str, each)) for each in (argument.shape, argument.block))
    strides = ", ".join(map(str, argument.strides))
    return f"descriptor of {place} ({argument.dtype}, {sizes} with strides {strides}, blocks of {block})"


def _view(view: View, buffers: Sequence[Buffer]) -> str:
    sizes = " x ".join(map(str, view.shape)) or "one element"
    layout = "" if _is_contiguous(view) else f" with strides {', '.join(map(str, view.strides))}"
    whole = view.offset_bytes == 0 and not layout
    covered = view.elements * DTYPE_BYTES[view.dtype] == buffers[view.buffer].bytes
    part = "" if whole and covered else "part of "
    return f"{part}{_name(buffers[view.buffer])}{_offset(view.offset_bytes)} ({view.dtype}, {sizes}{layout})"


def _is_contiguous(view: View) -> bool:
    expected = 1
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _name(buffer: Buffer) -> str:
    return f"buffer {buffer.id}" + ("" if buffer.input is None else f" (input {buffer.input})")


def _offset(offset_bytes: int) -> str:
    return f" from byte {offset_bytes}" if offset_bytes else ""


def _value(value: bool | int | float | str | None) -> str:
    return repr(value) if isinstance(value, str) or value is None else f"{value}"


def _plain(text: str) -> str:
    """Return text from a candidate in one line, without control characters that a terminal would obey."""
    return printable(text).replace("\n", " ")


def _bytes(count: int) -> str:
    """Return a size in the largest unit with a value of at least one; exact bytes below 1 KiB."""
    power = 0
    while power + 1 < len(_UNITS) and count >= 1024 ** (power + 1):
        power += 1
    amount = count / 1024**power
    return f"{amount:.0f} {_UNITS[power]}" if amount == int(amount) else f"{amount:.1f} {_UNITS[power]}"
