"""One launch: runs a kernel for all its programs and draws together, and splits them where they disagree.

Programs run in an order that nobody can know beforehand, as on a card: what is right only if the first program comes
first is wrong here. Those that wait for others are taken back and run again after them.

Lanes that disagree about a branch or a loop bound are taken back and run again in groups that agree. So every
program takes its own way, while the usual kernel, whose control flow does not depend on the program, runs once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, prod

import numpy as np
import torch
from triton import language as tl

from workers.interpreter.builder import Builder
from workers.interpreter.faults import Array, Divergence, NotInterpretable, SpinLimitReached
from workers.interpreter.formats import NUMBER_DTYPES, POINTER_DTYPES, TensorValue, TritonType, constant
from workers.interpreter.memory import DeviceMemory, LaneGroup, TrafficMeter
from workers.interpreter.sampled_memory import SampledMemory
from workers.interpreter.sampling import FEW_TURNS, MOST_PAIRS, PAIRS, TURNS, Drawn, LoopSample, draw_pairs, draw_spread
from workers.interpreter.translation import Functions, launchable
from workers.protocol import Launch, Number, Pointer
from workers.protocol.tags import untagged

GROUP_ELEMENTS = 1 << 18
"""Elements of one array over all lanes of a group: 1 MiB of float32, about what a core's cache holds."""
LEAST_TOGETHER = 4
"""Programs of a group however wide their blocks are: two neighbours, and one more of each."""
MOST_ELEMENTS = 1 << 24
"""Elements of one array up to which they are as many: 64 MiB of float32. Beyond it there are two."""
LEAST_WIDTH = 1024
"""Elements of a block that are assumed where constants do not show it."""
PATIENCE = 64
"""Turns of `while` after which programs have to wait for others; four times as many once nobody gets any further."""
APART = 0.5
"""How often programs that could all run together do not: those of one group are at one instruction at a time, and who
does not wait for what another program stores would find it nevertheless."""
LITTLE_BYTES = 4 << 20
"""Memory of a launch that is executed as a whole where it is sampled: lists by which later launches find their work are
small."""
ALIKE = 1.25
"""What one pair of programs may do over what another does until more are drawn."""
Amounts = tuple[float, ...]
"""Of what a meter counts."""


def run_launch(
    builder: Builder, functions: Functions, launch: Launch, memory: DeviceMemory, draws: int, order: np.random.Generator
) -> None:
    """Execute a launch step on every draw's memory.

    Args:
        builder: The bound builder.
        functions: The candidate's functions, translated.
        launch: Function, grid, arguments and constants.
        memory: The plan's buffers.
        draws: Copies of the buffers.
        order: Draws the order of programs.

    Raises:
        Fault: If the kernel cannot be executed to its end.
    """
    count, together = prod(launch.grid), _together(_width(launch), draws)
    most = (count + 1) // 2 if count <= together and order.random() < APART else inf
    shuffled = _shuffled(count, max(together, LEAST_TOGETHER), order, _strides(launch.grid))
    lanes = LaneGroup(np.arange(draws), _places(launch, shuffled))
    _run(builder, functions, launch, memory, lanes, PATIENCE, most)


def _strides(grid: Sequence[int]) -> list[int]:
    """How far numbers of programs are apart that are neighbours along an axis, other than the innermost one."""
    lengths = [length for length in grid if length > 1]
    return [prod(lengths[axis + 1 :]) for axis in range(len(lengths) - 1)]


def _shuffled(count: int, near: int, order: np.random.Generator, strides: Sequence[int] = ()) -> Array:
    """Numbers below `count` in any order, but neighbours stay together: they take the same way more often.

    Of `near` that run together half are neighbours, and the others theirs: along another axis, or some way off. So who
    races with another program meets it now and then, wherever that is.
    """
    apart = int(order.choice(np.array([*strides, int(order.integers(1, max(count, 2)))])))
    shifted = np.arange(count) + order.integers(2 * apart)
    paired = np.lexsort((shifted // apart % 2, shifted % apart, shifted // (2 * apart)))
    starts = order.permutation(np.arange(0, count, near))
    return np.concatenate([order.permutation(paired[start : start + near]) for start in starts])


def _together(width: int, draws: int) -> int:
    """How many programs run together: several, however wide their blocks are, as nobody is to run by himself."""
    least = LEAST_TOGETHER if width * draws * LEAST_TOGETHER <= MOST_ELEMENTS else 2
    return max(least, GROUP_ELEMENTS // (width * draws))


def sample_launch(builder: Builder, functions: Functions, launch: Launch, memory: SampledMemory, seed: str) -> None:
    """Execute some programs of a launch and some turns of their loops, metered as if it were all of them.

    All of them are, where they and their memory are few. Where programs do not do the same, more of them are drawn.

    Args:
        builder: The bound builder.
        functions: The candidate's functions, translated.
        launch: What to sample.
        memory: The plan's buffers; its meter is new.
        seed: What decides which programs and turns.

    Raises:
        Fault: If the kernel cannot be executed.
    """
    programs = prod(launch.grid)
    touched = {argument.buffer for argument in launch.arguments if isinstance(argument, Pointer)}
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
    """Execute a few pairs and then many programs in fewer turns, and pairs again, and more of them, if they differ."""
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
    """Execute groups of programs; returns what one of those that each program stands for does, by group."""
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
    """Places of programs along the three axes of the grid, (P, 3)."""
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
        function(**bind_arguments(launch, functions, memory))  # anew, as a run gives hints about them

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
    """A guess at the elements of a kernel's blocks, from the constants it is launched with."""
    sizes = sorted(value for value in launch.constants.values() if type(value) is int and value > 1)
    return max(LEAST_WIDTH, prod(sizes[-2:]))


def bind_arguments(launch: Launch, functions: Functions, memory: DeviceMemory) -> dict[str, object]:
    """What the kernel's parameters receive, by name.

    Raises:
        NotInterpretable: If the launch does not say which parameter receives which argument.
    """
    if len(launch.parameters) != len(launch.arguments):
        raise NotInterpretable(
            f"{launch.function} takes {len(launch.arguments)} arguments under {len(launch.parameters)} names; tuples "
            "and descriptors as arguments are not interpreted"
        )
    passed = dict(zip(launch.parameters, (_scalar(argument, memory) for argument in launch.arguments), strict=True))
    constants = {name: constant_of(value, partial(launchable, functions)) for name, value in launch.constants.items()}
    return {**constants, **passed}


_TORCH_DTYPES = {name: dtype for name, dtype in vars(torch).items() if isinstance(dtype, torch.dtype)}
_TRITON_DTYPES = {
    name: tl.dtype(name) for name in (*tl.dtype.SINT_TYPES, *tl.dtype.UINT_TYPES, *tl.dtype.FP_TYPES, "void")
}


def _scalar(argument: Pointer | Number, memory: DeviceMemory) -> TritonType:
    if isinstance(argument, Number):
        dtype = NUMBER_DTYPES[argument.type]
        return tl.tensor(constant(argument.value, dtype), dtype)
    dtype = tl.pointer_type(POINTER_DTYPES[argument.dtype])
    address = memory.address(argument.buffer, argument.offset_bytes)
    return tl.tensor(TensorValue(np.array([[address]]), dtype), dtype)


def constant_of(value: object, named: Callable[[str], object]) -> object:
    """A compile-time constant. Dtypes and functions travel as texts with a tag.

    Args:
        value: As the launch has it.
        named: Gives the function of a name.

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
    known = _TORCH_DTYPES if tag == "torch" else _TRITON_DTYPES
    if name not in known:
        raise NotInterpretable(f"the plan passes '{name}', which is no dtype")
    return known[name]


def _run_group(builder: Builder, kernel: Callable[[], object], lanes: LaneGroup, patience: float) -> list[LaneGroup]:
    """Run lanes together as far as they agree; returns those that have not ended, as if they had not begun."""
    remaining, waiting = [lanes], []
    while remaining:
        builder.lanes, builder.patience = remaining.pop(), patience
        builder.chance.begin()
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
    """Groups of lanes for which the value, (draws or 1, programs or 1), is the same, in order of first appearance."""
    rows, labels = np.unique(values, axis=0, return_inverse=True)
    if len(rows) > 1:
        groups = _groups(labels.reshape(-1))
        return [LaneGroup(lanes.draws[group], lanes.programs) for group in groups]
    return [LaneGroup(lanes.draws, lanes.programs[group]) for group in _groups(values[0])]


def _groups(labels: Array) -> list[Array]:
    """Positions of equal labels, by first appearance."""
    found, first = np.unique(labels, return_index=True)
    return [np.flatnonzero(labels == found[index]) for index in np.argsort(first)]
