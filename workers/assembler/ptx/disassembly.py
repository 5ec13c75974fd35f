"""Disassembly of judged machine code for people, with the candidate's lines where they are known.

Judged kernels have no line information: a candidate that moves within its file stays the same. Lines come from a second
trace. They count only if its kernel assembles to the very same instructions.
"""

from pathlib import Path

import triton
from triton.backends.nvidia.compiler import sm_arch_from_capability

from workers.assembler.ptx.canonical import CanonicalText
from workers.assembler.ptx.lint import lint
from workers.assembler.ptx.ptxas import LIMITS, assemble_text
from workers.assembler.sass import SassInstruction, parse_sass
from workers.errors import ToolMissing
from workers.protocol import Kernel
from workers.sandbox import OUTPUT, run_command
from workers.targets import Target

_CUBIN = "kernel.cubin"
_SOURCE = "candidate"


def disassemble(
    code: bytes, target: Target, lined: Kernel | None = None, tool: str | None = None
) -> list[SassInstruction]:
    """Disassemble a kernel.

    Args:
        code: Its machine code.
        target: Its target.
        lined: The same kernel, traced with line numbers.
        tool: Path of nvdisasm; the installed Triton's if None.

    Raises:
        ToolMissing: If this machine has no nvdisasm that reads it.
        AssemblyRefused: If the lined kernel breaks a rule.
        SandboxFailed: If the sandbox cannot be set up.
    """
    plain = parse_sass(_text(code, tool))
    if lined is None:
        return plain
    capability = target.capability[0] * 10 + target.capability[1]
    linted = lint(lined, sm_arch_from_capability(capability))
    told = parse_sass(_text(assemble_text(with_lines(linted.canonical), capability, "-lineinfo"), tool, "-g"))
    same = [(each.offset, each.text) for each in told] == [(each.offset, each.text) for each in plain]
    return told if same else plain


def with_lines(canonical: CanonicalText) -> str:
    """Return canonical text with a directive wherever the candidate's line changes within a function."""
    rows: list[str] = []
    last, depth = None, 0
    for row, line in zip(canonical.text.splitlines(), canonical.lines, strict=True):
        if depth and line is not None and line != last:
            rows.append(f".loc 1 {line} 0")
            last = line
        depth += (row == "{") - (row == "}")
        rows.append(row)
    return "\n".join([*rows, f'.file 1 "{_SOURCE}"', ""])


def _text(code: bytes, tool: str | None, *options: str) -> str:
    if not code:
        return ""
    path: str = tool or triton.knobs.nvidia.nvdisasm.path
    if not Path(path).is_file():
        raise ToolMissing(f"the installed Triton has no nvdisasm: {path}")
    result = run_command([path, "-c", *options, _CUBIN], {_CUBIN: code}, [OUTPUT], LIMITS)
    if result.status != 0:
        said = result.stderr.decode(errors="replace").strip().splitlines() or [result.detail]
        raise ToolMissing(f"nvdisasm does not read the machine code: {said[0][:200]}")
    return result.files[OUTPUT].decode(errors="replace")
