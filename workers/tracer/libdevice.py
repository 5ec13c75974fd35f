"""An excerpt of libdevice: the functions that most kernels call, linked in a fraction of the time.

For every kernel that calls one function, Triton reads all of libdevice, half a megabyte, and links what is called. That
is nearly half of the time that compiling a kernel of rmsnorm takes. The excerpt has the same functions, as LLVM text.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from triton._C.libtriton import ir, llvm
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

USUAL = frozenset(
    f"__nv_{name}f"
    for name in ("ceil", "erf", "exp", "exp2", "floor", "log", "log1p", "log2", "rint", "rsqrt", "sqrt", "tanh")
)
"""Functions of the excerpt, each from float32 to float32.

Seeds of the catalogue call only four of them; activations and losses use the rest. All are in one text of 0.05 MB,
which is read for each kernel.
"""

_DEFINED = re.compile(r"^define internal (?=float @__nv_)", re.MULTILINE)
# Linked functions are printed as internal; functions that others may call must not be.
_link_whole = llvm.link_extern_libs


def install() -> None:
    """Make Triton use `link`."""
    llvm.link_extern_libs = link


def link(module: llvm.module, paths: Sequence[str]) -> None:
    """Link the functions that an LLVM module calls: from the excerpt if it has all of them, else from the libraries.

    Raises:
        ValueError: If a library cannot be read.
    """
    declared = {item.name for item in module.get_functions() if item.is_declaration()}
    called = {name for name in declared if not name.startswith("llvm.")}
    if not called <= USUAL:
        _link_whole(module, paths)
        return
    with _file(excerpt()) as path:
        _link_whole(module, [path])


@cache
def excerpt() -> str:
    """Build the excerpt, as LLVM text, from the libdevice that Triton links."""
    target = GPUTarget("cuda", 90, 32)  # The excerpt is the same for all targets.
    backend = make_backend(target)
    context, llvm_context = ir.context(), llvm.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with _file("".join(f"llvm.func @{name}(f32) -> f32\n" for name in sorted(USUAL))) as path:
        module = llvm.to_module(ir.parse_mlir_module(path, context), llvm_context)
    _link_whole(module, [dict(backend.parse_options({}).extern_libs)["libdevice"]])
    return _DEFINED.sub("define ", str(module))


@contextmanager
def _file(text: str) -> Iterator[str]:
    """Provide a text under a path that exists inside the context."""
    descriptor = os.memfd_create("text")
    try:
        with open(descriptor, "w", closefd=False) as file:
            file.write(text)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
