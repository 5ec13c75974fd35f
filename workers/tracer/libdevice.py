"""An excerpt of libdevice: what most kernels call of it, linked in a fraction of the time that the whole takes.

Triton reads all of libdevice, half a megabyte, for every kernel that calls one of its functions, and links what is
called: nearly half of the time that compiling a kernel of rmsnorm takes. The excerpt has the same functions, as LLVM's
text.
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
"""Functions that the excerpt has, each from a float32 to one.

Seeds of the catalogue call four of them and no other; the rest is what activations and losses are written with. All are
in one text, whose length is read for each kernel: 0.05 MB.
"""

_DEFINED = re.compile(r"^define internal (?=float @__nv_)", re.MULTILINE)
# How functions that were linked are printed. Those that others may call are not internal.
_link_whole = llvm.link_extern_libs


def install() -> None:
    """Let Triton link by `link` from now on."""
    llvm.link_extern_libs = link


def link(module: llvm.module, paths: Sequence[str]) -> None:
    """Link what an LLVM module calls: out of the excerpt if that has all of it, else out of the libraries given.

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
    """The excerpt, made of the libdevice that Triton links, as LLVM's text."""
    target = GPUTarget("cuda", 90, 32)  # It is the same for all.
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
    """A path, as long as it lasts, where a text can be read."""
    descriptor = os.memfd_create("text")
    try:
        with open(descriptor, "w", closefd=False) as file:
            file.write(text)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
