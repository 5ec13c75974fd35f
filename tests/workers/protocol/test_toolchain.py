import pytest
from pydantic import ValidationError

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.plans import bundle_of, rmsnorm_plan
from workers.protocol import (
    PtxasTool,
    Toolchain,
    compiled_at,
    describe_compiler,
    described_place,
    is_before,
    release_of,
)

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


@pytest.mark.parametrize(
    ("version", "release"),
    [("3.9.0", "3.9"), ("3.10.1+git", "3.10"), ("3.7", "3.7"), ("", ""), ("absent", ""), ("3.1000.0", "")],
)
def test_a_release_is_the_beginning_of_a_version(version, release):
    assert release_of(version) == release
    assert Toolchain(triton="3.9.0").release == "3.9"


def test_releases_are_compared_by_their_numbers():
    assert is_before("3.8", "3.10") and not is_before("3.10", "3.8") and not is_before("3.8", "3.8")


def test_a_place_with_a_compiler_is_read_in_words():
    assert compiled_at("sm_90", None) == described_place("sm_90") == "sm_90"
    assert described_place(compiled_at("model:sm_90", "3.9")) == "model:sm_90 with Triton 3.9"


def test_a_compiler_is_described_as_reports_name_it():
    assert describe_compiler({"triton": "3.9.0", "ptxas": "13.4.31 (abab)", "torch": "2.15"}) == (
        "Triton 3.9.0, ptxas 13.4.31"
    )
    assert describe_compiler({"triton": "3.9.0"}) == "Triton 3.9.0"
    assert describe_compiler({}) == ""
