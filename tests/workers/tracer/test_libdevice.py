import pytest
from triton._C.libtriton import ir, llvm
from triton.compiler.compiler import make_backend

from tests.workers.tracer.jobs import candidate, in_jail, job
from workers import tracer
from workers.targets import TARGETS
from workers.tracer.fake_device import gpu_target
from workers.tracer.libdevice import USUAL, excerpt, link

NOWHERE = ["/nonexistent/libdevice.bc"]
CALLER = """
llvm.func @{name}(f32) -> f32
llvm.func @kernel(%x: f32, %y: !llvm.ptr<1>) attributes {{nvvm.kernel}} {{
  %once = llvm.call @{name}(%x) : (f32) -> f32
  %twice = llvm.call @{name}(%once) : (f32) -> f32
  llvm.store %twice, %y : f32, !llvm.ptr<1>
  llvm.return
}}
"""


class Linked:
    """A kernel that calls a function of libdevice twice, linked."""

    def __init__(self, tmp_path, name, how, paths=None):
        backend = make_backend(gpu_target(TARGETS["sm_90"]))
        llvm.init_targets()
        context, self._llvm_context = ir.context(), llvm.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        text = tmp_path / "caller.mlir"
        text.write_text(CALLER.format(name=name))
        self.module = llvm.to_module(ir.parse_mlir_module(str(text), context), self._llvm_context)
        llvm.attach_datalayout(self.module, "nvptx64-nvidia-cuda", "sm_90a", "")
        how(self.module, paths or [dict(backend.parse_options({}).extern_libs)["libdevice"]])

    def assembly(self):
        llvm.optimize_module(self.module, llvm.OPTIMIZE_O3)
        return llvm.translate_to_asm(str(self.module), "nvptx64-nvidia-cuda", "sm_90a", "", [], True, False)


@pytest.mark.parametrize("name", sorted(USUAL))
def test_kernels_come_out_as_with_the_whole(tmp_path, name):
    assembly = Linked(tmp_path, name, link).assembly()
    assert assembly == Linked(tmp_path, name, llvm.link_extern_libs).assembly()
    assert ".entry kernel" in assembly and "call" not in assembly


def test_what_is_usual_needs_no_library_and_all_else_the_whole(tmp_path):
    assert "define internal float @__nv_logf" in str(Linked(tmp_path, "__nv_logf", link, NOWHERE).module)
    with pytest.raises(ValueError, match="nonexistent"):
        Linked(tmp_path, "__nv_sinf", link, NOWHERE)
    assert "define internal float @__nv_sinf" in str(Linked(tmp_path, "__nv_sinf", link).module)


def test_the_excerpt_has_all_that_is_usual_and_is_short():
    assert excerpt().count("\ndefine float @__nv_") == len(USUAL)
    assert len(excerpt()) < 2**16


def test_candidates_are_linked_by_it():
    def linked_by(request):
        tracer.trace(request)
        return str(llvm.link_extern_libs is link).encode()

    assert in_jail(linked_by, job(candidate()).model_dump_json().encode()) == b"True"
    assert llvm.link_extern_libs is not link
