"""The words are Triton's, and none of them leads to a module."""

from pkgutil import resolve_name
from types import ModuleType

import triton.experimental.gluon.language as gl
import triton.language as tl
from triton.compiler.code_generator import CodeGenerator

from service.export.vocabulary import ATTRIBUTES, BUILTINS, DTYPES, MODULES, UNSPOKEN, WORDS

CHIPS = ("hopper", "blackwell")


def test_every_word_is_there_and_none_is_a_module() -> None:
    elsewhere = set()
    for word in WORDS:
        try:
            assert not isinstance(resolve_name(word), ModuleType), word
        except AttributeError:
            elsewhere.add(word)
    elsewhere.remove("triton.language.extra.cuda.libdevice.fast_tanhf")  # AMD's libdevice has one more function.
    gluon = "triton.experimental.gluon.language"
    renamed = {"thread_barrier", *(f"nvidia.{chip}.tma.async_{word}" for chip in CHIPS for word in ("load", "store"))}
    assert elsewhere <= {f"{gluon}.{name}" for name in renamed}, "words of other releases"
    assert all(isinstance(resolve_name(module), ModuleType) for module in MODULES)


def test_no_attribute_leads_out_of_the_language() -> None:
    assert not any(name.startswith("_") for name in ATTRIBUTES)
    assert not {"handle", "mro", "fn", "src", "cache_key"} & ATTRIBUTES
    offered = {name for name in dir(tl.tensor) if not name.startswith("_")}
    assert offered - ATTRIBUTES == {"item"}, "a new method of tensors: look where it leads, then list it"
    shared = {name for name in dir(gl.shared_memory_descriptor) if not name.startswith("_")}
    assert shared - ATTRIBUTES == {"rank"}, "a new method of shared memory: look where it leads, then list it"
    assert not {"mangle", "format_tensor_view", "hash"} & ATTRIBUTES, "methods of layouts that run Python"


def test_every_builtin_of_triton_is_either_allowed_or_unspoken() -> None:
    assert set(CodeGenerator.builtin_namespace) <= BUILTINS | UNSPOKEN
    assert not BUILTINS & UNSPOKEN


def test_dtypes_are_named_as_plans_name_them() -> None:
    assert {name: getattr(tl, attribute).name for name, attribute in DTYPES.items()} == {name: name for name in DTYPES}
