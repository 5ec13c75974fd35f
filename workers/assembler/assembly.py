"""A traced bundle to an assembled one: rules, machine code, and readings of every plan."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from workers.assembler.amd import assemble_amdgcn
from workers.assembler.launch_checks import check_launch, check_precision
from workers.assembler.machine import MachineCode
from workers.assembler.ptx.ptxas import LIMITS, assemble_all_ptx, assemble_ptx
from workers.assembler.readings import read_plans, resident_of
from workers.assembler.refusal import AssemblyRefused
from workers.errors import ToolMissing
from workers.protocol import Bundle, Kernel, Launch, Operator, Outcome, PtxasTool, Readings
from workers.targets import TARGETS, Target

_CACHED_KERNELS = 64
"""Maximum number of cached kernels: 16 variants with four kernels each fit, and variants share most kernels."""
BUDGET_S = 60.0
"""Seconds after which no further kernel of a bundle is assembled; honest bundles take a tenth."""
Assembler: TypeAlias = Callable[[Kernel], MachineCode]
"""Function that lints and assembles one kernel; raises `AssemblyRefused` if it breaks a rule or does not assemble."""
_GRID_LIMIT = {"nvidia": 65535, "amd": 2**31 - 1}
# Maximum programs along y and z: CUDA programming guide, compute capabilities; HIP device limits.


@dataclass(frozen=True)
class AssembledBundle:
    """Result of assembling a bundle.

    Attributes:
        bundle: The bundle with the kernels that it launches and their cubins' digests; None if it was refused.
        readings: Trace-side readings, one per plan, in the bundle's order; empty if it was refused.
        outcome: Outcome of the refusal, or None.
        reason: A sentence that a person or an LLM can act on; empty if it was not refused.
        line: The candidate's line for the reason, where known.
        seconds: Total wall time.
        codes: Machine code of each kernel by its digest; empty if it was refused.
    """

    bundle: Bundle | None
    readings: tuple[Readings, ...]
    outcome: Outcome | None
    reason: str
    line: int | None
    seconds: float
    codes: Mapping[str, MachineCode] = field(default_factory=dict)


def assemble(
    bundle: Bundle, operator: Operator, assembler: Assembler | None = None, cpu_s: float = LIMITS.cpu_s
) -> AssembledBundle:
    """Lint and assemble a bundle's kernels, and derive the readings of its plans.

    Args:
        bundle: The traced bundle.
        operator: The contract.
        assembler: Assembler of one kernel; `assemble_together` if None.
        cpu_s: Maximum seconds of processor time for each kernel of an NVIDIA GPU, if no assembler is given.

    Raises:
        ToolMissing: If this machine cannot assemble for the bundle's target.
        SandboxFailed: If the sandbox cannot be set up.
    """
    started = time.perf_counter()
    target = TARGETS.get(bundle.target)
    if target is None:
        raise ToolMissing(f"unknown target '{bundle.target}'; known: {', '.join(TARGETS)}")
    try:
        codes = _assemble_kernels(bundle, target, started + BUDGET_S, assembler or assemble_together(bundle, cpu_s))
        for launch in (launch for plan in bundle.plans for launch in plan.launches):
            check_precision(launch, codes[launch.kernel].mix, operator)
    except AssemblyRefused as refused:
        seconds = time.perf_counter() - started
        return AssembledBundle(None, (), refused.outcome, refused.reason, refused.line, seconds)
    cubins = {digest: code.digest for digest, code in codes.items()}
    kernels = {digest: bundle.kernels[digest] for digest in codes}
    assembled = bundle.model_copy(update={"kernels": kernels, "cubins": cubins})
    readings = read_plans(assembled, operator, codes, target)
    return AssembledBundle(assembled, readings, None, "", None, time.perf_counter() - started, codes)


def _assemble_kernels(bundle: Bundle, target: Target, until: float, assembler: Assembler) -> dict[str, MachineCode]:
    codes: dict[str, MachineCode] = {}
    for plan in bundle.plans:
        for launch in plan.launches:
            kernel = bundle.kernels[launch.kernel]
            if time.perf_counter() > until:
                raise AssemblyRefused(
                    f"assembling its kernels took more than {BUDGET_S:g} s; use fewer or smaller specialisations",
                    launch.line,
                    Outcome.COMPILE_ERROR,
                )
            if launch.kernel not in codes:
                codes[launch.kernel] = _assemble_fitting(kernel, target, launch, assembler)
            check_launch(launch, codes[launch.kernel].parameters)
            _check_grid(launch, target)
    return codes


def _assemble_fitting(kernel: Kernel, target: Target, launch: Launch, assembler: Assembler) -> MachineCode:
    if kernel.target != target.name:
        raise AssemblyRefused(
            f"'{launch.function}' was compiled for {kernel.target}, but the bundle is for {target.name}"
        )
    code = assembler(kernel)
    shared = code.shared_bytes
    if shared > target.shared_block_bytes or not resident_of(kernel, code, target):
        raise AssemblyRefused(
            f"'{launch.function}' does not fit on {target.name}: a program takes {shared} bytes of shared memory (of "
            f"{target.shared_block_bytes}) and {kernel.num_warps} warps of {code.registers} registers per thread; "
            "use smaller blocks, fewer stages or fewer warps",
            launch.line,
            Outcome.COMPILE_ERROR,
        )
    return code


def _check_grid(launch: Launch, target: Target) -> None:
    limit = _GRID_LIMIT[target.vendor]
    if max(launch.grid[1:]) > limit:
        raise AssemblyRefused(
            f"'{launch.function}' is launched on a grid of {launch.grid}; the maximum along the second and third axis "
            f"is {limit}",
            launch.line,
            Outcome.UNSUPPORTED_LAUNCH,
        )


def ptxas_of(bundle: Bundle) -> PtxasTool | None:
    """Return the ptxas that a bundle names; None is the host's own."""
    return None if bundle.toolchain is None else bundle.toolchain.ptxas


def assemble_together(bundle: Bundle, cpu_s: float = LIMITS.cpu_s) -> Assembler:
    """Assemble all NVIDIA kernels that a bundle launches, in one sandbox. Returns the assembler of one of them.

    It raises the refusal of a refused kernel; a kernel behind that one it assembles alone.

    Args:
        bundle: The bundle.
        cpu_s: Maximum seconds of processor time for each kernel, at most those of `LIMITS`.

    Raises:
        ToolMissing: If this machine cannot assemble for the bundle's target.
        SandboxFailed: If the sandbox cannot be set up.
    """
    target, tool = TARGETS[bundle.target], ptxas_of(bundle)
    launched = dict.fromkeys(launch.kernel for plan in bundle.plans for launch in plan.launches)
    kernels = [bundle.kernels[digest] for digest in launched if target.vendor == "nvidia"]
    missing = [
        each for each in kernels if (each, tool) not in _known and (each.target, each.language) == (target.name, "ptx")
    ]
    refused: dict[Kernel, AssemblyRefused] = {}
    limits = replace(LIMITS, wall_s=BUDGET_S, cpu_s=min(LIMITS.cpu_s, cpu_s))
    for kernel, found in zip(missing, assemble_all_ptx(missing, target, limits, tool=tool), strict=False):
        if isinstance(found, AssemblyRefused):
            refused[kernel] = found
        else:
            _keep(kernel, tool, found)

    def assembler(kernel: Kernel) -> MachineCode:
        if kernel in refused:
            raise refused[kernel]
        return assemble_kernel(kernel, tool)

    return assembler


def assemble_kernel(kernel: Kernel, tool: PtxasTool | None = None) -> MachineCode:
    """Lint and assemble one kernel with a build of ptxas, with a cache for equal kernels; None is the host's own.

    Raises:
        AssemblyRefused: If it breaks a rule or the assembler rejects it.
        ToolMissing: If this machine cannot assemble for the kernel's target.
        SandboxFailed: If the sandbox cannot be set up.
    """
    if (kernel, tool) in _known:
        return _keep(kernel, tool, _known[kernel, tool])
    target = TARGETS.get(kernel.target)
    if target is None:
        raise ToolMissing(f"unknown target '{kernel.target}'")
    if (target.vendor == "nvidia") != (kernel.language == "ptx"):
        raise AssemblyRefused(f"a kernel in {kernel.language} cannot run on {target.name}")
    code = assemble_ptx(kernel, target, tool=tool) if kernel.language == "ptx" else assemble_amdgcn(kernel, target)
    return _keep(kernel, tool, code)


_known: OrderedDict[tuple[Kernel, PtxasTool | None], MachineCode] = OrderedDict()
# Machine code of the kernels that were used last.


def _keep(kernel: Kernel, tool: PtxasTool | None, code: MachineCode) -> MachineCode:
    _known[kernel, tool] = code
    _known.move_to_end((kernel, tool))
    while len(_known) > _CACHED_KERNELS:
        _known.popitem(last=False)
    return code
