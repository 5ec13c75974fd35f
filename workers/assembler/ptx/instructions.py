"""PTX instructions and special registers that a kernel may use, and the class of each instruction.

Both are lists of what is allowed; everything else is refused, including instructions of later PTX versions.
The names are those of the PTX ISA, version 9.0, sections 9 (instructions) and 10 (special registers).
"""

import re

from workers.assembler.ptx.syntax import PtxInstruction

_HEADS = {
    "integer": (
        "abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "div", "dp2a",
        "dp4a", "fma", "fns", "lop3", "mad", "mad24", "madc", "max", "min", "mul", "mul24", "neg", "not", "or", "popc",
        "prmt", "rem", "sad", "set", "setp", "shf", "shl", "shr", "sub", "subc", "szext", "testp", "xor",
    ),
    "special": ("cos", "ex2", "lg2", "rcp", "rsqrt", "sin", "sqrt", "tanh"),
    "convert": ("cvt",),
    "load_shared": ("ldmatrix",),
    "store_shared": ("stmatrix",),
    "atomic": ("atom", "red"),
    "matrix": ("mma", "tcgen05", "wgmma", "wmma"),
    "branch": ("bra", "brx", "call", "exit", "ret", "trap"),
    "barrier": ("bar", "barrier", "fence", "mbarrier", "membar"),
    "other": (
        "activemask", "applypriority", "cp", "createpolicy", "cvta", "elect", "getctarank", "isspacep", "ld", "ldu",
        "mapa", "match", "mov", "movmatrix", "prefetch", "prefetchu", "redux", "selp", "setmaxnreg", "shfl", "slct",
        "st", "tensormap", "vote",
    ),
}  # fmt: skip
# By the class of an instruction before its modifiers are considered.
_CLASS_OF_HEAD = {head: name for name, heads in _HEADS.items() for head in heads}

REFUSED_HEADS = {
    "griddepcontrol": "programmatic dependent launch overlaps a kernel with its neighbours, so its time is meaningless",
    "nanosleep": "a kernel may not sleep: a timed wait is a clock",
    "discard": "discarding cache lines destroys memory outside the kernel's own results",
    "multimem": "multimem reaches other devices",
    "pmevent": "performance events are reserved for the judge",
    "brkpt": "breakpoints stop the device",
    **dict.fromkeys(
        ("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"),
        "launch plans do not support textures and surfaces",
    ),
    **dict.fromkeys(("alloca", "stacksave", "stackrestore"), "a stack of changing size cannot be bounded"),
}
"""Instructions that are refused with a specific reason."""

REFUSED_MODIFIERS = {
    "sys": "system scope reaches the host and other devices; use scope='gpu'",
    "mmio": "launch plans do not support memory-mapped I/O",
    "multimem": "multimem reaches other devices",
}

SPECIAL_REGISTERS = frozenset(
    {f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}
    | {f"%cluster_{name}.{axis}" for name in ("ctaid", "nctaid") for axis in "xyz"}
    | {f"%{name}.{axis}" for name in ("clusterid", "nclusterid") for axis in "xyz"}
    | {f"%lanemask_{kind}" for kind in ("eq", "le", "lt", "ge", "gt")}
    | {"%laneid", "%warpid", "%nwarpid", "%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster"}
    | {"%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size"}
)
"""Registers with the position of a thread in its launch."""

REFUSED_REGISTERS = {
    "%clock": "a kernel may not read clocks",
    "%globaltimer": "a kernel may not read timers",
    "%gridid": "it tells one launch from another",
    "%current_graph_exec": "it tells whether a launch is being timed",
    "%smid": "the hardware chooses the multiprocessor of a program; use tl.program_id",
    "%nsmid": "it identifies the device; take the number of multiprocessors on the host",
    "%envreg": "environment registers are reserved for the driver",
    "%pm": "performance counters are reserved for the judge",
}
"""Registers that are refused with a specific reason, by prefix of their name."""

PRAGMAS = re.compile(r"nounroll|used_bytes_mask 0x[0-9a-f]{1,8}")
"""Hints that LLVM writes, in full; others change options of the assembler."""

_BITS = re.compile(r"[a-z]+(\d+)(x2)?\Z")


def is_known(instruction: PtxInstruction) -> bool:
    """Return True if the instruction is on the list."""
    return instruction.head in _CLASS_OF_HEAD


def access_bytes(item: PtxInstruction) -> int:
    """Return the bytes that a thread accesses with a load or store; 0 if its type gives no size."""
    vector = next((int(word[1:]) for word in item.modifiers if word in ("v2", "v4", "v8")), 1)
    bits = _BITS.match(item.modifiers[-1]) if item.modifiers else None
    return vector * int(bits[1]) * (2 if bits[2] else 1) // 8 if bits else 0


def classify(instruction: PtxInstruction) -> str:
    """Return the class of an instruction in `workers.assembler.CLASSES`, `other` if it is not allowed."""
    modifiers = instruction.modifiers
    kind = _CLASS_OF_HEAD.get(instruction.head, "other")
    if instruction.head in ("ld", "ldu", "st", "cp"):
        return _classify_access(instruction.head, modifiers)
    if kind == "integer" and _is_float(modifiers):
        return "special" if instruction.head == "div" else "float"
    return kind


def _is_float(modifiers: tuple[str, ...]) -> bool:
    return any(word.startswith(("f16", "bf16", "f32", "f64", "tf32")) for word in modifiers)


def _classify_access(head: str, modifiers: tuple[str, ...]) -> str:
    spaces = [word.partition("::")[0] for word in modifiers if word.partition("::")[0] in ("global", "shared")]
    if head != "cp":
        verb = "store" if head == "st" else "load"
        generic = not spaces and not {"param", "local", "const"} & {word.partition("::")[0] for word in modifiers}
        if generic:
            return f"{verb}_global"
        return f"{verb}_{spaces[0]}" if spaces else "other"
    if "reduce" in modifiers:
        return "atomic"
    if len(spaces) < 2:
        return "other"
    return "store_global" if spaces[0] == "global" else "load_global"
