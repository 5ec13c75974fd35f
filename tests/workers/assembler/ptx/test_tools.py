import hashlib
import shutil

import pytest

from tests.workers.assembler.kernels import compiled
from workers.assembler import assemble_kernel, toolchain_of
from workers.assembler.ptx.tools import kept_tools, own_tool, path_of, read_own_tools
from workers.errors import ToolMissing
from workers.protocol import PtxasTool
from workers.targets import TARGETS

SM_90 = TARGETS["sm_90"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return kept_tools()


def keep(folder, content, name="ptxas", digest=None):
    digest = digest or hashlib.sha256(content).hexdigest()
    (folder / digest).mkdir(parents=True)
    (folder / digest / name).write_bytes(content)
    (folder / digest / name).chmod(0o755)
    return PtxasTool(version="12.0", digest=digest)


def test_the_installed_triton_has_a_build_per_target():
    tool, path = own_tool(90)
    assert toolchain_of(SM_90).ptxas == tool and path_of(tool, SM_90) == path == path_of(None, SM_90)
    assert tool.version.count(".") == 2
    assert toolchain_of(TARGETS["sm_100"]).ptxas.digest != toolchain_of(TARGETS["sm_80"]).ptxas.digest
    assert toolchain_of(TARGETS["gfx942"]).ptxas is None


def test_a_fork_reads_no_build_again(monkeypatch):
    read_own_tools()
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("the build is read again"))
    own_tool.cache_clear()
    assert all(own_tool(capability)[0].digest for capability in (80, 90, 100, 120))


def test_a_kept_build_assembles_the_plans_that_name_it(cache, tmp_path):
    kernel, own = compiled("rmsnorm"), own_tool(90)[1]
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\necho used >&2\nexec {own} "$@"\n')
    tool = keep(cache, wrapper.read_bytes())
    assert path_of(tool, SM_90).startswith(str(cache))
    assert assemble_kernel(kernel, tool).code == assemble_kernel(kernel).code


def test_a_build_that_this_host_lacks_is_named_with_the_remedy(cache):
    with pytest.raises(ToolMissing, match=r"ptxas 13\.4\.31 \(abababababab\) is not on this host.*keep-ptxas"):
        path_of(PtxasTool(version="13.4.31", digest="ab" * 32), SM_90)


def test_a_kept_file_of_another_content_is_not_used(cache):
    tool = keep(cache, b"#!/bin/sh\n", digest="ab" * 32)
    with pytest.raises(ToolMissing, match="is not the ptxas that its folder names"):
        path_of(tool, SM_90)
    shutil.rmtree(cache)
