"""Facts of a plan's launches from their machine code, without running anything: resources, occupancy, instructions."""

from collections import Counter
from collections.abc import Mapping, Sequence

from workers.assembler import MachineCode
from workers.assembler.ptx.disassembly import disassemble
from workers.assembler.readings import occupancy, programs_of, residency_limits
from workers.assembler.refusal import AssemblyRefused
from workers.assembler.sass import SassInstruction, loop_depths
from workers.errors import ToolMissing
from workers.predict import ISSUE_CYCLES
from workers.profiler.counters import CountedLaunch
from workers.protocol import Bundle, HotInstruction, Kernel, KernelProfile, Launch
from workers.protocol.profile import MAX_HOTTEST
from workers.targets import Target

MATRIX_CYCLES = 32
"""Cycles of one matrix instruction in the static order: fewer than any takes, and more than other instructions."""


def profile_launches(
    bundle: Bundle, codes: Mapping[str, MachineCode], target: Target, lined: Bundle | None = None
) -> tuple[list[KernelProfile], dict[str, list[SassInstruction]], list[str]]:
    """Profile the launches of a bundle's only plan.

    Args:
        bundle: The judged bundle, assembled.
        codes: Machine code by kernel digest.
        target: The target, or the card.
        lined: The bundle of a trace with line numbers. A kernel of it counts if it assembled to the same machine code.

    Returns:
        The profiles, the instructions by kernel digest, and notes on what is missing.
    """
    instructions: dict[str, list[SassInstruction]] = {}
    notes = list[str]()
    with_lines = {lined.cubins[digest]: kernel for digest, kernel in lined.kernels.items()} if lined else {}
    for digest in bundle.kernels:
        try:
            instructions[digest] = _disassembled(codes[digest], target, with_lines)
        except (ToolMissing, AssemblyRefused) as error:
            instructions[digest] = []
            notes.append(f"no instructions: {error}")
    (plan,) = bundle.plans
    profiles = [_profile(launch, bundle, codes, target, instructions[launch.kernel]) for launch in plan.launches]
    shown = [each for found in instructions.values() for each in found]
    if shown and all(each.line is None for each in shown):
        notes.append("no lines beside the instructions: the source is missing, or compiles to other machine code here")
    return profiles, instructions, list(dict.fromkeys(notes))


def _disassembled(code: MachineCode, target: Target, with_lines: Mapping[str, Kernel]) -> list[SassInstruction]:
    try:
        return disassemble(code.code, target, with_lines.get(code.digest))
    except AssemblyRefused:
        return disassemble(code.code, target)


def _profile(
    launch: Launch,
    bundle: Bundle,
    codes: Mapping[str, MachineCode],
    target: Target,
    instructions: Sequence[SassInstruction],
) -> KernelProfile:
    kernel, code = bundle.kernels[launch.kernel], codes[launch.kernel]
    limits = residency_limits(target, kernel.num_warps, code.registers, code.shared_bytes)
    resident, programs = min(limits.values()), programs_of(launch)
    return KernelProfile(
        function=launch.function,
        line=launch.line,
        programs=programs,
        num_warps=kernel.num_warps,
        registers=code.registers,
        spill_bytes=code.spill_bytes,
        shared_bytes=code.shared_bytes,
        resident=resident,
        limiters=tuple(name for name, limit in limits.items() if limit == resident),
        occupancy=occupancy(target, kernel.num_warps, resident),
        waves=programs / (max(1, resident) * target.sms),
        opcodes=dict(Counter(each.opcode for each in instructions).most_common()),
        classes=dict(Counter(each.class_name for each in instructions).most_common()),
        hottest=hottest(instructions),
    )


def hottest(instructions: Sequence[SassInstruction]) -> tuple[HotInstruction, ...]:
    """Return the instructions that cost most as far as the text tells: in most loops, then of most issue cycles.

    Those of one opcode, line and depth are one entry. Without loops this is no more than the expensive instructions.
    """
    groups: dict[tuple[int, str, int | None], list[SassInstruction]] = {}
    for each, depth in zip(instructions, loop_depths(instructions), strict=True):
        groups.setdefault((depth, each.opcode, each.line), []).append(each)
    order = sorted(groups.items(), key=lambda item: (-item[0][0], -_cycles(item[1][0]) * len(item[1])))
    return tuple(
        _hot(group[0], depth).model_copy(update={"count": len(group)}) for (depth, _, _), group in order[:MAX_HOTTEST]
    )


def _cycles(instruction: SassInstruction) -> int:
    return MATRIX_CYCLES if instruction.class_name == "matrix" else ISSUE_CYCLES.get(instruction.class_name, 1)


def with_counters(
    profile: KernelProfile, counted: CountedLaunch, instructions: Sequence[SassInstruction]
) -> KernelProfile:
    """Add the profiler's counters to a launch; its hottest instructions are then those with most samples.

    Args:
        profile: The launch.
        counted: Its counters.
        instructions: Its instructions, which have lines and loops. They are in the profiler's order, if it shows the
            same code at all.
    """
    update: dict[str, object] = {"counters": dict(counted.counters), "stalls": dict(counted.stalls)}
    rows, depths = counted.instructions, loop_depths(instructions)
    same = [SassInstruction(0, row.text).opcode for row in rows[: len(instructions)]] == [
        each.opcode for each in instructions
    ]
    if same and any(row.samples for row in rows):
        order = sorted(range(len(instructions)), key=lambda at: -(rows[at].samples or 0))[:MAX_HOTTEST]
        update["hottest"] = tuple(
            _hot(instructions[at], depths[at]).model_copy(
                update={"samples": rows[at].samples, "executed": rows[at].executed, "stall": rows[at].stall}
            )
            for at in order
            if rows[at].samples
        )
    return profile.model_copy(update=update)


def _hot(instruction: SassInstruction, depth: int) -> HotInstruction:
    return HotInstruction(offset=instruction.offset, text=instruction.text[:400], line=instruction.line, depth=depth)
