"""One launch: runs a kernel for all its programs and draws together, and splits them where they disagree.

Programs run in an unpredictable order, as on a card: a kernel that needs the first program to come first fails here.
Programs that wait for others are undone and run again after them.

Lanes that disagree about a branch or a loop bound are undone and run again in groups that agree. So every program
takes its own path, while the usual kernel, whose control flow does not depend on the program, runs once.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf, prod

import numpy as np
import torch
from triton import language as tl

from workers.interpreter.access import BlockDescriptor
from workers.interpreter.builder import Builder
from workers.interpreter.faults import Array, Divergence, NotInterpretable, SpinLimitReached
from workers.interpreter.formats import NUMBER_DTYPES, POINTER_DTYPES, TensorValue, TritonType, constant
from workers.interpreter.memory import DeviceMemory, LaneGroup, TrafficMeter
from workers.interpreter.sampled_memory import SampledMemory
from workers.interpreter.sampling import FEW_TURNS, MOST_PAIRS, PAIRS, TURNS, Drawn, LoopSample, draw_pairs, draw_spread
from workers.interpreter.translation import Functions, launchable
from workers.protocol import HostDescriptor, Launch, Number, Pointer
from workers.protocol.plan import gathered
from workers.protocol.tags import untagged

GROUP_ELEMENTS = 1 << 18
"""Elements of one array over all lanes of a group: 1 MiB of float32, about the size of a core's cache."""
LEAST_TOGETHER = 4
"""Minimum number of programs in a group, for blocks of any width: two neighbours, and a neighbour of each."""
MOST_ELEMENTS = 1 << 24
"""Maximum elements of one array for `LEAST_TOGETHER`: 64 MiB of float32. Beyond it the minimum is two programs."""
LEAST_WIDTH = 1024
"""Assumed elements of a block if the constants do not show more."""
PATIENCE = 64
"""Iterations of `while` after which programs must wait for others; multiplied by 4 whenever no program advances."""
APART = 0.5
"""Probability that programs run in two groups though they fit in one. Programs of one group execute the same
instruction at the same time, so a missing wait for another program's store would go unnoticed."""
LITTLE_BYTES = 4 << 20
"""Maximum memory of a sampled launch that is executed as a whole: lists of work for later launches are small."""
ALIKE = 1.25
"""Maximum ratio between the traffic of two pairs of programs; beyond it more pairs are drawn."""
Amounts = tuple[float, ...]
"""Amounts that a meter counts."""


def run_launch(
    builder: Builder, functions: Functions, launch: Launch, memory: DeviceMemory, draws: int, order: np.random.Generator
) -> None:
    """Execute a launch step on every draw's memory.

    Args:
        builder: The bound builder.
        functions: The candidate's functions, translated.
        launch: Function, grid, arguments and constants.
        memory: The plan's buffers.
        draws: Number of copies of the buffers.
        order: Draws the order of programs.

    Raises:
        InterpreterFault: If the kernel cannot be executed to its end.
    """
    count, together = prod(launch.grid), _together(_width(launch), draws)
    most = (count + 1) // 2 if count <= together and order.random() < APART else inf
    shuffled = _shuffled(count, max(together, LEAST_TOGETHER), order, _strides(launch.grid))
    lanes = LaneGroup(np.arange(draws), _places(launch, shuffled))
    _run(builder, functions, launch, memory, lanes, PATIENCE, most)


def _strides(grid: Sequence[int]) -> list[int]:
    """Return the distances between numbers of programs that are neighbours along the axes, except the innermost."""
    lengths = [length for length in grid if length > 1]
    return [prod(lengths[axis + 1 :]) for axis in range(len(lengths) - 1)]


def _shuffled(count: int, near: int, order: np.random.Generator, strides: Sequence[int] = ()) -> Array:
    """Shuffle the numbers below `count`, but keep neighbours together: they take the same path more often.

    Of `near` programs that run together, half are neighbours, and the others their neighbours along another axis or at
    a random distance. So programs that race sometimes run together, wherever they are.
    """
    apart = int(order.choice(np.array([*strides, int(order.integers(1, max(count, 2)))])))
    shifted = np.arange(count) + order.integers(2 * apart)
    paired = np.lexsort((shifted // apart % 2, shifted % apart, shifted // (2 * apart)))
    starts = order.permutation(np.arange(0, count, near))
    return np.concatenate([order.permutation(paired[start : start + near]) for start in starts])


def _together(width: int, draws: int) -> int:
    """Return the number of programs that run together: at least two, for blocks of any width."""
    least = LEAST_TOGETHER if width * draws * LEAST_TOGETHER <= MOST_ELEMENTS else 2
    return max(least, GROUP_ELEMENTS // (width * draws))


def sample_launch(builder: Builder, functions: Functions, launch: Launch, memory: SampledMemory, seed: str) -> None:
    """Execute some programs of a launch and some iterations of their loops, metered as if it were all of them.

    A small launch with little memory is executed as a whole. If programs differ, more of them are drawn.

    Args:
        builder: The bound builder.
        functions: The candidate's functions, translated.
        launch: The launch to sample.
        memory: The plan's buffers; its meter is new.
        seed: Seed for the choice of programs and iterations.

    Raises:
        InterpreterFault: If the kernel cannot be executed.
    """
    programs = prod(launch.grid)
    touched = {argument.buffer for argument in launch.memory}
    is_little = memory.size(touched) <= LITTLE_BYTES
    is_whole = is_little and programs * _width(launch) <= GROUP_ELEMENTS
    memory.forget()
    try:
        if is_whole:
            _run(builder, functions, launch, memory, LaneGroup(np.arange(1), _places(launch, np.arange(programs))))
        else:
            _sample(partial(_run_drawn, builder, functions, launch, memory), programs, memory, seed)
    finally:
        builder.loop_sample = None
    memory.settle(in_part=not is_whole)


def _sample(
    run: Callable[[str, Drawn, int], Sequence[Amounts]], programs: int, memory: DeviceMemory, seed: str
) -> None:
    """Execute a few pairs, then many programs with fewer iterations; if they differ, execute more pairs."""
    pairs = min(PAIRS, (programs + 1) // 2)
    amounts = run(seed, draw_pairs(seed, programs, pairs), TURNS * (PAIRS // pairs))
    if programs <= 2 * PAIRS:
        return
    few = memory.meter
    memory.meter = TrafficMeter()
    run(f"{seed} spread", draw_spread(seed, programs), FEW_TURNS)
    alike = (*zip(*amounts, strict=True), *zip(few.done, memory.meter.done, strict=True))
    if not any(moved for moved, *_ in amounts) or not all(map(_are_alike, alike)):
        memory.meter = TrafficMeter()
        run(f"{seed} more", draw_pairs(f"{seed} more", programs, MOST_PAIRS), TURNS)


def _are_alike(amounts: Sequence[float]) -> bool:
    return max(amounts) <= ALIKE * min(amounts)


def _run_drawn(
    builder: Builder, functions: Functions, launch: Launch, memory: DeviceMemory, seed: str, drawn: Drawn, turns: int
) -> Sequence[Amounts]:
    """Execute groups of programs. Returns the amounts per represented program, by group."""
    found = []
    for programs, share in drawn:
        before, memory.meter.weight = memory.meter.done, share
        memory.forget()
        builder.loop_sample = LoopSample(f"{seed} {programs}", turns)
        _run(builder, functions, launch, memory, LaneGroup(np.arange(1), _places(launch, np.array(programs))))
        per_program = len(programs) * share
        done = zip(memory.meter.done, before, strict=True)
        found.append(tuple((after - then) / per_program for after, then in done))
    return found


def _places(launch: Launch, programs: Array) -> Array:
    """Return the places of programs along the three axes of the grid, (P, 3)."""
    return np.stack(np.unravel_index(programs, launch.grid), axis=1)


def _run(
    builder: Builder,
    functions: Functions,
    launch: Launch,
    memory: DeviceMemory,
    lanes: LaneGroup,
    patience: float = inf,
    most: float = inf,
) -> None:
    builder.memory, builder.grid, builder.widest = memory, launch.grid, 1
    function = launchable(functions, launch.function)

    def kernel() -> None:
        function(**bind_arguments(launch, functions, memory))  # Bound again, because a run adds hints to them.

    width, done = _width(launch), 0
    waiting: list[LaneGroup] = []
    while done < len(lanes.programs):
        count = int(min(_together(width, len(lanes.draws)), most))
        waiting += _run_group(builder, kernel, LaneGroup(lanes.draws, lanes.programs[done : done + count]), patience)
        width = builder.widest
        done += count
    while waiting:
        left = [late for group in waiting for late in _run_group(builder, kernel, group, patience)]
        if sum(map(_size, left)) == sum(map(_size, waiting)):
            patience *= 4
        waiting = left


def _size(lanes: LaneGroup) -> int:
    return len(lanes.draws) * len(lanes.programs)


def _width(launch: Launch) -> int:
    """Guess the elements of a kernel's blocks from its launch constants."""
    sizes = sorted(value for value in launch.constants.values() if type(value) is int and value > 1)
    return max(LEAST_WIDTH, prod(sizes[-2:]))


def bind_arguments(launch: Launch, functions: Functions, memory: DeviceMemory) -> dict[str, object]:
    """Return the kernel's arguments by parameter name.

    Raises:
        NotInterpretable: If the launch does not tell which parameter receives which argument.
    """
    constants = {name: constant_of(value, partial(launchable, functions)) for name, value in launch.constants.items()}
    return whole_arguments(launch, constants, [_passed(argument, memory) for argument in launch.arguments])


def whole_arguments(launch: Launch, constants: Mapping[str, object], passed: Sequence[object]) -> dict[str, object]:
    """Return the kernel's arguments by parameter name, tuples put together.

    Args:
        launch: The launch.
        constants: Its compile-time constants.
        passed: Its arguments.

    Raises:
        NotInterpretable: If the launch does not tell which parameter receives which argument.
    """
    try:
        return gathered({**constants, **dict(zip(launch.parameters, passed, strict=True))})
    except ValueError as error:
        reason = f"{launch.function} takes {len(passed)} arguments under {len(launch.parameters)} names: {error}"
        raise NotInterpretable(reason) from None


_TORCH_DTYPES = {name: dtype for name, dtype in vars(torch).items() if isinstance(dtype, torch.dtype)}
_TRITON_DTYPES = {
    name: tl.dtype(name) for name in (*tl.dtype.SINT_TYPES, *tl.dtype.UINT_TYPES, *tl.dtype.FP_TYPES, "void")
}


def _passed(argument: Pointer | Number | HostDescriptor, memory: DeviceMemory) -> TritonType:
    if isinstance(argument, Number):
        return _number(argument.value, NUMBER_DTYPES[argument.type])
    dtype = tl.pointer_type(POINTER_DTYPES[argument.dtype])
    address = TensorValue(np.array([[memory.address(argument.buffer, argument.offset_bytes)]]), dtype)
    return tl.tensor(address, dtype) if isinstance(argument, Pointer) else _descriptor(argument, address)


def _number(value: bool | int | float, dtype: tl.dtype) -> TritonType:
    return tl.tensor(constant(value, dtype), dtype)


def _descriptor(argument: HostDescriptor, address: TensorValue) -> TritonType:
    shape, strides = (
        [_number(size, tl.int32) for size in argument.shape],
        [_number(stride, tl.int64) for stride in argument.strides],
    )
    sizes, steps = (tuple(each.handle.data for each in part) for part in (shape, strides))
    padding = "NAN" if argument.nan_fill else None
    handle = BlockDescriptor(address, sizes, steps, argument.block, padding)
    return tl.tensor_descriptor(handle, shape, strides, tl.block_type(address.dtype.element_ty, list(argument.block)))


def constant_of(value: object, named: Callable[[str], object]) -> object:
    """Decode a compile-time constant. Dtypes and functions are sent as texts with a tag.

    Args:
        value: The launch's value.
        named: Returns the function of a name.

    Raises:
        NotInterpretable: If there is no such dtype or function.
    """
    if not isinstance(value, str):
        return value
    tag, name = untagged(value)
    if tag == "text":
        return name
    if tag == "function":
        return named(name)
    if tag == "layout":
        raise NotInterpretable("the plan passes a layout: Gluon is not interpreted")
    known = _TORCH_DTYPES if tag == "torch" else _TRITON_DTYPES
    if name not in known:
        raise NotInterpretable(f"the plan passes '{name}', which is no dtype")
    return known[name]


def _run_group(builder: Builder, kernel: Callable[[], object], lanes: LaneGroup, patience: float) -> list[LaneGroup]:
    """Run lanes together as far as they agree. Returns those that have not ended, with all their work undone."""
    remaining, waiting = [lanes], []
    while remaining:
        builder.lanes, builder.patience = remaining.pop(), patience
        builder.chance.begin()
        builder.remarks.begin()
        if builder.loop_sample is not None:
            builder.loop_sample.again()
        try:
            kernel()
        except Divergence as divergence:
            builder.memory.undo()
            remaining += reversed(_split(builder.lanes, divergence.values))
        except SpinLimitReached:
            builder.memory.undo()
            waiting.append(builder.lanes)
        builder.memory.forget()
    return waiting


def _split(lanes: LaneGroup, values: Array) -> Sequence[LaneGroup]:
    """Group lanes with the same value, (draws or 1, programs or 1), in order of first appearance."""
    rows, labels = np.unique(values, axis=0, return_inverse=True)
    if len(rows) > 1:
        groups = _groups(labels.reshape(-1))
        return [LaneGroup(lanes.draws[group], lanes.programs) for group in groups]
    return [LaneGroup(lanes.draws, lanes.programs[group]) for group in _groups(values[0])]


def _groups(labels: Array) -> list[Array]:
    """Return the positions of equal labels, by first appearance."""
    found, first = np.unique(labels, return_index=True)
    return [np.flatnonzero(labels == found[index]) for index in np.argsort(first)]
