import pytest
from pydantic import ValidationError

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.plans import bundle_of, rmsnorm_plan
from workers.protocol import PtxasTool, Toolchain

DIGEST = "ab" * 32


def test_reports_name_the_compiler_and_the_assembler():
    toolchain = Toolchain(triton="3.9.0", ptxas=PtxasTool(version="13.4.31", digest=DIGEST))
    assert toolchain.versions == {"triton": "3.9.0", "ptxas": "13.4.31 (abababababab)"}
    assert Toolchain(triton="3.9.0").versions == {"triton": "3.9.0"}


@pytest.mark.parametrize("version", ["", "latest", "3.9.0\n", "3.9 0", "3." + "1" * 60])
def test_a_version_is_one_word(version):
    with pytest.raises(ValidationError):
        Toolchain(triton=version)


def test_equal_plans_of_two_compilers_are_two_bundles():
    kernel = compiled("rmsnorm")
    bundle = bundle_of(kernel, rmsnorm_plan(kernel, {"M": 7, "N": 300}))
    bundle = bundle.model_copy(update={"cubins": dict.fromkeys(bundle.kernels, DIGEST)})
    one, other, newer = (
        bundle.model_copy(
            update={"toolchain": Toolchain(triton=triton, ptxas=PtxasTool(version="12.9", digest=digest))}
        )
        for triton, digest in (("3.8.0", DIGEST), ("3.9.0", DIGEST), ("3.9.0", "cd" * 32))
    )
    assert len({each.identity for each in (bundle, one, other, newer)}) == 4
    assert one.restricted(one.plans).identity == one.identity
