"""AMD kernels: rules for LLVM's assembly text, then the installed Triton's assembler and linker in a sandbox.

The text is read line by line, as LLVM's assembler reads it, and printed anew without comments, debug sections and
source lines. Directives and instructions outside of the lists are refused.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from triton._C.libtriton import amd, llvm

from workers.assembler.loops import LoopFlow
from workers.assembler.machine import (
    ACCESSES,
    CLASSES,
    ENTRY,
    EntryParameter,
    InstructionMix,
    LoopIteration,
    MachineCode,
)
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Kernel, Outcome
from workers.sandbox import SandboxEnding, SandboxLimits, run
from workers.targets import Target

WAVE_THREADS = 64
"""Threads of a wave on the CDNA targets."""

_DROPPED = re.compile(r"\.(loc|file|cfi_\w+|ident|size|type|section\s+\.debug_\w+)\b")
_SECTION = re.compile(r"\.text|\.section\s+(\.rodata|\.debug_\w+|\.AMDGPU\.\w+|\"\.note\.GNU-stack\")(,[\w\",@ ]*)?")
_DIRECTIVE = re.compile(
    r"""\.amdgcn_target\ "[\w-]+" | \.amdhsa_code_object_version\ \d+ | \.globl\ kernel | \.p2alignl?\ [\d,\ x]+
      | \.fill\ \d+,\ \d+,\ \d+ | \.set\ [\w.$]+,\ [\w.$()+,\ -]+ | \.amdhsa_kernel\ kernel | \.end_amdhsa_kernel
      | \.amdhsa_\w+\ [\w.$()+,*/\ -]+ | \.protected\ kernel""",
    re.VERBOSE,
)
_LABEL = re.compile(r"[A-Za-z_.$][\w.$]*:")
_INSTRUCTION = re.compile(r"((?:s|v|ds|global|buffer|flat|scratch)_[a-z0-9_]+)(?: [\w\[\]:,.|()+\- ]*)?")
_REFUSED = (
    (re.compile(r"s_mem(real)?time|s_getreg"), "a kernel may not read clocks or hardware registers"),
    (re.compile(r"s_sendmsg|s_ttrace|s_\w*perflevel"), "a kernel may not send messages to the host"),
    (re.compile(r"s_sleep|s_sethalt|s_rfe|s_trap|s_icache|s_dcache"), "a kernel may not stop or flush the device"),
    (
        re.compile(r"s_swappc|s_setpc|s_getpc|s_call|s_cbranch_\w_fork"),
        "a kernel may not call functions on AMD targets",
    ),
    (re.compile(r"s_setreg(?!_imm32_b32 hwreg\(HW_REG_MODE,)"), "a kernel may not write hardware registers"),
    (re.compile(r".*\bsc0 sc1\b"), "system scope reaches the host and other devices; use scope='gpu'"),
)
_HIDDEN = ("queue_ptr", "dispatch_ptr", "dispatch_id")
_METADATA = re.compile(r"---|\.\.\.|[ -]*[\w.]+:? *[\w.' -]*")
_HIDDEN_ARGUMENT = re.compile(
    r"hidden_(?!block_count_|group_size_|remainder_|global_offset_|grid_dims|dynamic_lds_size|none)"
)
# Arguments that the runtime adds: sizes of the launch are allowed, buffers shared with the host are not.
_ENDS = ("s_branch", "s_endpgm")
_MASKING = "s_cbranch_execz"
# Jump of threads that a mask disables; the others continue.


@dataclass
class _Reading:
    """State of the reader: lines, instructions, labels, numbers and jump targets so far."""

    lines: list[str] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    goals: dict[int, str] = field(default_factory=dict)

    @property
    def flow(self) -> LoopFlow:
        """Control flow between the instructions."""
        jumps = {place: self.labels[goal] for place, goal in self.goals.items() if goal in self.labels}
        return LoopFlow(jumps, {place for place, name in enumerate(self.instructions) if name in _ENDS})


@dataclass(frozen=True)
class AmdText:
    """AMD assembly that keeps the rules.

    Attributes:
        text: Canonical text.
        parameters: Parameters of the entry.
        registers: Vector registers per thread, as the hardware allocates them.
        scratch_bytes: Private memory per thread: spills and local arrays.
        shared_bytes: Shared memory per program.
        mix: Its instruction mix.
    """

    text: str
    parameters: tuple[EntryParameter, ...]
    registers: int
    scratch_bytes: int
    shared_bytes: int
    mix: InstructionMix


def lint_amdgcn(kernel: Kernel) -> AmdText:
    """Check a kernel's AMD assembly against the rules.

    Raises:
        AssemblyRefused: With the rule that is broken.
    """
    if "hidden_hostcall_buffer" in kernel.assembly:
        raise AssemblyRefused("the kernel prints or asserts; remove tl.device_print and tl.device_assert")
    code, metadata = _split(kernel.assembly)
    reading = _Reading()
    for line in _statements(code):
        _read(line, reading)
    numbers = reading.numbers
    if reading.lines.count(".amdhsa_kernel kernel") != 1 or f"{ENTRY}:" not in reading.lines:
        raise AssemblyRefused("the assembly must have exactly one entry, called 'kernel'")
    if any(numbers.get(f"user_sgpr_{name}", 0) for name in _HIDDEN):
        raise AssemblyRefused("the kernel reads its queue or dispatch packet, which tells one launch from another")
    _check_threads(metadata, kernel)
    return AmdText(
        text="\n".join([*reading.lines, *metadata, ""]),
        parameters=tuple(_parameters(metadata)),
        registers=numbers.get("next_free_vgpr", 0),
        scratch_bytes=numbers.get("private_segment_fixed_size", 0),
        shared_bytes=max(numbers.get("group_segment_fixed_size", 0), kernel.shared_bytes),
        mix=_mix(reading),
    )


def _split(text: str) -> tuple[str, list[str]]:
    """Separate the code from the metadata block, and drop what follows the block (debug lines)."""
    if not re.fullmatch(r"[\t\n\x20-\x7e]*", text) or "/*" in text or "\\" in text:
        raise AssemblyRefused("the assembly has characters that LLVM does not write")
    code, opened, rest = text.partition("\t.amdgpu_metadata\n")
    metadata, closed, _ = rest.partition("\t.end_amdgpu_metadata\n")
    if not opened or not closed:
        raise AssemblyRefused("the assembly has no metadata for its kernel")
    lines = [line for line in metadata.split("\n") if line.strip()]
    for line in lines:
        if not _METADATA.fullmatch(line) or _HIDDEN_ARGUMENT.search(line):
            raise AssemblyRefused(f"the kernel's metadata has the unsupported line {line.strip()[:60]!r}")
    return code, ["\t.amdgpu_metadata", *lines, "\t.end_amdgpu_metadata"]


def _statements(code: str) -> Iterator[str]:
    """Yield lines without comments, extra spaces, debug sections and source lines."""
    keep = True
    for raw in code.split("\n"):
        line = " ".join(re.split(r";|//", raw, maxsplit=1)[0].split())
        if _SECTION.fullmatch(line):
            keep = ".debug_" not in line
        elif line.startswith((".section", ".data", ".bss", ".pushsection", ".popsection", ".previous")):
            raise AssemblyRefused(f"the assembly has the section {line[:60]!r}: kernels may only hold code")
        if keep and line and not _DROPPED.match(line):
            yield line


def _read(line: str, reading: _Reading) -> None:
    if _LABEL.fullmatch(line):
        reading.labels[line[:-1]] = len(reading.instructions)
    elif line.startswith("."):
        if not (_DIRECTIVE.fullmatch(line) or _SECTION.fullmatch(line)):
            raise AssemblyRefused(f"the assembly has the unsupported directive {line[:60]!r}")
        number = re.fullmatch(r"\.amdhsa_(\w+) (\d{1,9})", line)
        if number:
            reading.numbers[number[1]] = int(number[2])
    else:
        _read_instruction(line, reading)
    reading.lines.append(line)


def _read_instruction(line: str, reading: _Reading) -> None:
    match = _INSTRUCTION.fullmatch(line)
    if match is None:
        raise AssemblyRefused(f"the assembly has {line[:60]!r}, which is no instruction")
    for pattern, reason in _REFUSED:
        if pattern.match(line):
            raise AssemblyRefused(f"'{line[:60]}': {reason}")
    reading.instructions.append(match[1])
    if match[1].startswith(("s_branch", "s_cbranch")) and match[1] != _MASKING:
        reading.goals[len(reading.instructions) - 1] = line.split(" ")[-1]


def _check_threads(metadata: list[str], kernel: Kernel) -> None:
    threads = re.findall(r"\.max_flat_workgroup_size: *(\d+)", "\n".join(metadata))
    if threads != [str(kernel.num_warps * WAVE_THREADS)]:
        raise AssemblyRefused(
            f"the assembly is for {' and '.join(threads)} threads, the plan for {kernel.num_warps} waves of 64"
        )
    if re.findall(r"\.name: *(\S+)", "\n".join(metadata)) != [ENTRY] or kernel.num_ctas != 1:
        raise AssemblyRefused("the metadata must describe exactly one kernel, called 'kernel', without clusters")


def _parameters(metadata: list[str]) -> Iterator[EntryParameter]:
    for size, kind in re.findall(r"\.size: *(\d{1,6})\n *\.value_kind: *(\w+)", "\n".join(metadata)):
        if not kind.startswith("hidden_"):
            yield EntryParameter(int(size), "pointer" if kind == "global_buffer" else "bits")


def _mix(reading: _Reading) -> InstructionMix:
    counts = Counter(_classify(name) for name in reading.instructions)
    widths = [_width(name) for name in reading.instructions if _classify(name) == "load_global"]
    passed = reading.flow.turns([_classify(name) for name in reading.instructions])
    products = [match for match in map(_PRODUCT.match, reading.instructions) if match]
    looped = [reading.instructions[place] for place in passed]
    return InstructionMix(
        instructions={name: counts[name] for name in CLASSES},
        load_width_bytes=max(widths, default=0),
        memory_path="async" if any("_lds_" in name for name in reading.instructions) else "plain",
        tensor_core="mma" if counts["matrix"] else "none",
        accumulators="registers" if products else "none",
        loops=bool(reading.flow.jumps_back),
        turn=LoopIteration(
            instructions=dict(Counter(map(_classify, looped))),
            thread_bytes=sum(_width(name) for name in looped if _classify(name) in ACCESSES),
            program_bytes=0,
        ),
        sums=frozenset(_SUMS.get(match[1], match[1]) for match in products),
        factors=frozenset(_FACTORS.get(word, word) for match in products for word in _FACTOR.findall(match[2])),
    )


def _width(name: str) -> int:
    """Return the bytes of global memory that a thread accesses with a load or store."""
    match = re.search(r"dword(x(\d+))?|(byte|short)", name)
    if match is None:
        return 0
    if match[3]:
        return 1 if "byte" in match[3] else 2
    return 4 * int(match[2] or 1)


_PRODUCT = re.compile(r"v_(?:s?mfmac?|wmma|swmmac)_(?:scale_)?(f64|f32|f16|bf16|i32)_\d+x\d+x\d+_?(.*)")
"""A matrix instruction: type of its sums, and types of its factors, as in `v_mfma_f32_16x16x32_fp8_bf8`."""
_FACTOR = re.compile(r"bf16|f16|xf32|f32|f64|f8f6f4|fp8|bf8|iu8|i8|iu4|i4")
_SUMS = {"i32": "s32"}
_FACTORS = {"xf32": "tf32", "fp8": "e4m3", "bf8": "e5m2", "iu8": "s8", "i8": "s8", "iu4": "s4", "i4": "s4"}
"""Names of types in PTX, by AMD's names."""

_PATTERNS = (
    (r"(global|buffer|flat)_load", "load_global"),
    (r"(global|buffer|flat)_store", "store_global"),
    (r".*atomic|ds_(add|sub|min|max|inc|dec|cmpst|and|or|xor)", "atomic"),
    (r"ds_read|ds_load", "load_shared"),
    (r"ds_write|ds_store", "store_shared"),
    (r"v_s?mfma|v_wmma|v_swmmac", "matrix"),
    (r"v_(exp|log|rcp|rsq|sqrt|sin|cos|div_\w+)_", "special"),
    (r"v_cvt", "convert"),
    (r"s_(c?branch|endpgm)", "branch"),
    (r"s_barrier|s_waitcnt|buffer_(wb|inv)", "barrier"),
    (r"(v|s)_(mov|cndmask|readfirstlane|readlane|writelane|nop|load|cselect|perm|swap)", "other"),
    (r"v_\w*_(f16|f32|f64|bf16)", "float"),
    (r"[sv]_", "integer"),
)
_CLASSES = tuple((re.compile(pattern), name) for pattern, name in _PATTERNS)


def _classify(name: str) -> str:
    return next((kind for pattern, kind in _CLASSES if pattern.match(name)), "other")


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
