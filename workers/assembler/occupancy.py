"""Occupancy: resident programs per multiprocessor, from registers, shared memory and the target's data."""

from workers.targets import Target

SHARED_RESERVED_BYTES = 1024
"""Shared memory that the driver takes for each program on NVIDIA sm_80 and later (CUDA programming guide)."""

_SHARED_GRANULE_BYTES = {"nvidia": 128, "amd": 512}
# Shared memory is allocated in these steps: CUDA occupancy calculator; CDNA3 ISA guide, LDS allocation.
_REGISTER_GRANULE = {"nvidia": 256, "amd": 512}
# 32-bit registers are allocated to a warp in these steps: 8 per lane, of 32 or 64 lanes (the same sources).
_SCHEDULERS = 4
# Warps are spread over four schedulers with a quarter of the registers each, on all targets.


def resident_programs(target: Target, num_warps: int, registers: int, shared_bytes: int) -> int:
    """Return how many programs of a kernel one multiprocessor holds at a time; 0 if not even one fits.

    The result is the smallest of four limits: threads, programs, registers (allocated per warp, in steps, within one of
    four schedulers) and shared memory (in steps, with the driver's share). Clusters are ignored.
    """
    warps_sm = target.threads_sm // target.warp_size
    limits = [warps_sm // num_warps, target.blocks_sm]
    warp_registers = _round_up(registers * target.warp_size, _REGISTER_GRANULE[target.vendor])
    if warp_registers:
        warps = target.registers_sm // _SCHEDULERS // warp_registers * _SCHEDULERS
        limits.append(warps // num_warps)
    reserved = SHARED_RESERVED_BYTES if target.vendor == "nvidia" else 0
    shared = _round_up(shared_bytes + reserved, _SHARED_GRANULE_BYTES[target.vendor])
    if shared:
        limits.append(target.shared_sm_bytes // shared)
    return min(limits)


def occupancy(target: Target, num_warps: int, programs: int) -> float:
    """Return the share of a multiprocessor's warp slots that `programs` resident programs fill, 0 to 1."""
    return min(1.0, programs * num_warps * target.warp_size / target.threads_sm)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
