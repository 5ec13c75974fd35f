"""AMD kernels: the rules, then the assembler and linker of the installed Triton in a sandbox of its own."""

from pathlib import Path

from triton._C.libtriton import amd, llvm

from workers.assembler.amd.text import lint_amdgcn
from workers.assembler.machine import MachineCode
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Kernel, Outcome
from workers.sandbox import SandboxEnding, SandboxLimits, run
from workers.targets import Target

LIMITS = SandboxLimits(wall_s=15.0, cpu_s=15.0, memory_bytes=4 * 2**30, reply_bytes=64 * 2**20, processes=1)
"""LLVM assembles Triton's kernels in under 0.1 s."""

_FEATURES = {"gfx11": "-real-true16"}
# Features that Triton's HIP backend passes for a family of targets.


def assemble_amdgcn(kernel: Kernel, target: Target) -> MachineCode:
    """Lint and assemble a kernel for an AMD target.

    Raises:
        AssemblyRefused: If it breaks a rule or the assembler rejects it.
        SandboxFailed: If the sandbox cannot be set up.
    """
    linted = lint_amdgcn(kernel)
    wanted = f'.amdgcn_target "amdgcn-amd-amdhsa--{target.name}"'
    if not linted.text.startswith(wanted):
        raise AssemblyRefused(f"the assembly is not for {target.name}")
    features = next((value for family, value in _FEATURES.items() if target.name.startswith(family)), "")

    def link(request: bytes) -> bytes:
        return _link(request.decode(), target.name, features)

    result = run(link, linted.text.encode(), LIMITS)
    if result.ending is not SandboxEnding.RETURNED:
        detail = (result.detail.strip().splitlines() or ["no reason given"])[-1]
        raise AssemblyRefused(f"the assembler refused the kernel: {detail[:400]}", outcome=Outcome.COMPILE_ERROR)
    return MachineCode(
        code=result.reply,
        parameters=linted.parameters,
        registers=linted.registers,
        spill_bytes=linted.scratch_bytes,
        shared_bytes=linted.shared_bytes,
        mix=linted.mix,
    )


def _link(text: str, target: str, features: str) -> bytes:
    """Assemble and link; runs in the sandbox's private directory."""
    llvm.init_targets()
    Path("kernel.o").write_bytes(amd.assemble_amdgcn(text, target, features))
    amd.link_hsaco("kernel.o", "kernel.hsaco")
    return Path("kernel.hsaco").read_bytes()
