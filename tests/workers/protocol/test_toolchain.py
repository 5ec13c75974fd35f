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


def test_plans_of_another_compiler_are_others_by_their_machine_code():
    kernel = compiled("rmsnorm")
    bundle = bundle_of(kernel, rmsnorm_plan(kernel, {"M": 7, "N": 300}))
    named = Toolchain(triton="3.9.0", ptxas=PtxasTool(version="12.9", digest=DIGEST))

    def identity(code: str, toolchain: Toolchain | None) -> str:
        return bundle.model_copy(
            update={"cubins": dict.fromkeys(bundle.kernels, code), "toolchain": toolchain}
        ).identity

    assert identity(DIGEST, named) == identity(DIGEST, None), "as a bundle of a release that named no compiler"
    assert identity(DIGEST, named) != identity("cd" * 32, named)
