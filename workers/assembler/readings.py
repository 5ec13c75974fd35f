"""Machine code and a plan to the plan's trace-side readings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from workers.assembler.machine import MachineCode
from workers.protocol import DTYPE_BYTES, Bundle, Kernel, Launch, LaunchReadings, Operator, Plan, Readings
from workers.targets import Target


def read_plans(
    bundle: Bundle, operator: Operator, codes: Mapping[str, MachineCode], target: Target
) -> tuple[Readings, ...]:
    """Derive the readings of each plan of a bundle, in order.

    Args:
        bundle: The plans and their kernels.
        operator: The contract; its inputs count towards `bytes_required`.
        codes: Machine code by kernel digest, for every kernel of the bundle.
        target: The target, for occupancy.
    """
    return tuple(_read_plan(plan, bundle, operator, codes, target) for plan in bundle.plans)


def _read_plan(
    plan: Plan, bundle: Bundle, operator: Operator, codes: Mapping[str, MachineCode], target: Target
) -> Readings:
    required = operator.input_bytes(plan.shape.dims) + _output_bytes(plan)
    main = main_launch(plan)
    if main is None:
        return Readings(launches=0, programs=0, programs_per_sm=0.0, num_warps=0, bytes_required=required)
    kernel, code = bundle.kernels[main.kernel], codes[main.kernel]
    all_codes = [codes[launch.kernel] for launch in plan.launches]
    counts = sum((Counter(item.mix.instructions) for item in all_codes), Counter[str]())
    programs = sum(programs_of(launch) for launch in plan.launches)
    resident = resident_of(kernel, code, target)
    return Readings(
        launches=len(plan.launches),
        programs=programs,
        programs_per_sm=programs / target.sms,
        num_warps=kernel.num_warps,
        registers=code.registers,
        spill_bytes=sum(item.spill_bytes for item in all_codes),
        shared_bytes=code.shared_bytes,
        occupancy=occupancy(target, kernel.num_warps, resident),
        load_width_bytes=code.mix.load_width_bytes,
        memory_path=code.mix.memory_path,
        tensor_core=code.mix.tensor_core,
        warp_roles=code.mix.warp_roles,
        cluster_size=kernel.num_ctas,
        accumulators=code.mix.accumulators,
        bytes_required=required,
        persistent=_is_persistent(plan, bundle.plans, code, resident * target.sms, target),
        instructions={name: counts[name] for name in code.mix.instructions},
        by_launch=tuple(
            _read_launch(launch, bundle.kernels[launch.kernel], codes[launch.kernel], target)
            for launch in plan.launches
        ),
        open_barriers=sum(item.mix.open_barriers for item in all_codes),
    )


def _read_launch(launch: Launch, kernel: Kernel, code: MachineCode, target: Target) -> LaunchReadings:
    programs, turn = programs_of(launch), code.mix.turn
    return LaunchReadings(
        programs=programs,
        num_warps=kernel.num_warps,
        occupancy=occupancy(target, kernel.num_warps, resident_of(kernel, code, target)),
        load_width_bytes=code.mix.load_width_bytes,
        spill_bytes=code.spill_bytes,
        tensor_core=code.mix.tensor_core,
        instructions=code.mix.instructions,
        looped=turn.instructions,
        turn_bytes=programs * (turn.thread_bytes * kernel.num_warps * target.warp_size + turn.program_bytes),
    )


def programs_of(launch: Launch) -> int:
    """Return the number of programs of a launch."""
    return prod(launch.grid)


def main_launch(plan: Plan) -> Launch | None:
    """Return the launch with the most programs, the first of equals; None if the plan launches nothing."""
    return max(plan.launches, key=programs_of, default=None)


def resident_of(kernel: Kernel, code: MachineCode, target: Target) -> int:
    """Return how many programs of an assembled kernel one multiprocessor holds at a time."""
    return resident_programs(target, kernel.num_warps, code.registers, code.shared_bytes)


def _output_bytes(plan: Plan) -> int:
    return sum(view.elements * DTYPE_BYTES[view.dtype] for view in plan.outputs)


def _is_persistent(plan: Plan, plans: Sequence[Plan], code: MachineCode, capacity: int, target: Target) -> bool:
    """Return True if the main launch's grid is sized by the device and its programs loop over the work.

    The kernel must loop, all of its programs must be resident at once, and their count must not depend on the shape.
    The bundle shows the last: no plan that is larger or smaller in every varying dimension has another count, unless it
    has too little work. If no plan is comparable, a multiple of the number of multiprocessors counts as sized by the
    device.
    """
    main = main_launch(plan)
    if main is None or not code.mix.loops or programs_of(main) > capacity:
        return False
    programs = programs_of(main)
    others = _comparable(plan, main, plans)
    larger = [count for grows, count in others if grows]
    smaller = [count for grows, count in others if not grows]
    if any(count != programs for count in larger) or any(count > programs for count in smaller):
        return False
    return programs % target.sms == 0 or programs in larger or programs in smaller


def _comparable(plan: Plan, main: Launch, plans: Sequence[Plan]) -> list[tuple[bool, int]]:
    """Return, for plans of the same kernel that differ equally in all varying dimensions, if larger, and programs."""
    sizes = plan.shape.dims
    varying = [name for name in sizes if len({other.shape.dims.get(name) for other in plans}) > 1]
    found = []
    for other in plans:
        theirs = main_launch(other)
        signs = {_sign(other.shape.dims.get(name, 0) - sizes[name]) for name in varying}
        if theirs is not None and theirs.function == main.function and signs in ({1}, {-1}):
            found.append((signs == {1}, programs_of(theirs)))
    return found


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


SHARED_RESERVED_BYTES = 1024
"""Shared memory that the driver takes for each program on NVIDIA sm_80 and later (CUDA programming guide)."""

_SHARED_GRANULE_BYTES = {"nvidia": 128, "amd": 512}
# Shared memory is allocated in these steps: CUDA occupancy calculator; CDNA3 ISA guide, LDS allocation.
_REGISTER_GRANULE = {"nvidia": 256, "amd": 512}
# 32-bit registers are allocated to a warp in these steps: 8 per lane, of 32 or 64 lanes (the same sources).
_SCHEDULERS = 4
# Warps are spread over four schedulers with a quarter of the registers each, on all targets.


def resident_programs(target: Target, num_warps: int, registers: int, shared_bytes: int) -> int:
    """Return how many programs of a kernel one multiprocessor holds at a time; 0 if not even one fits."""
    return min(residency_limits(target, num_warps, registers, shared_bytes).values())


def residency_limits(target: Target, num_warps: int, registers: int, shared_bytes: int) -> dict[str, int]:
    """Return how many programs of a kernel one multiprocessor could hold by each resource; the smallest counts.

    Registers are allocated per warp, in steps, within one of four schedulers; shared memory in steps, with the driver's
    share. Clusters are ignored.
    """
    warps_sm = target.threads_sm // target.warp_size
    limits = {"threads": warps_sm // num_warps, "programs": target.blocks_sm}
    warp_registers = _round_up(registers * target.warp_size, _REGISTER_GRANULE[target.vendor])
    if warp_registers:
        warps = target.registers_sm // _SCHEDULERS // warp_registers * _SCHEDULERS
        limits["registers"] = warps // num_warps
    reserved = SHARED_RESERVED_BYTES if target.vendor == "nvidia" else 0
    shared = _round_up(shared_bytes + reserved, _SHARED_GRANULE_BYTES[target.vendor])
    if shared:
        limits["shared memory"] = target.shared_sm_bytes // shared
    return limits


def occupancy(target: Target, num_warps: int, programs: int) -> float:
    """Return the share of a multiprocessor's warp slots that `programs` resident programs fill, 0 to 1."""
    return min(1.0, programs * num_warps * target.warp_size / target.threads_sm)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
