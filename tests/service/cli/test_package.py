"""What is said of a package that was written."""

import pytest

from kernelreef.packages import Package
from service.cli.package import package_document, print_package

PACKAGE = Package("double_kernels", {}, {"N=4": "one", "N=8": "two"}, {"N=4": "three"}, ("two\x1b[2J: differs",))


def test_shapes_and_refusals_are_told(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    print_package(PACKAGE, tmp_path)
    said = capsys.readouterr().out.replace("\n", " ")
    assert "N=8" in said and "PyTorch" in said and "left out: two?[2J: differs" in said
    assert "The package double_kernels is in" in said


def test_the_same_as_json() -> None:
    told = package_document(PACKAGE)
    assert told["serving"] == {"N=4": "one", "N=8": "two"} and told["training"] == {"N=4": "three"}
    assert told["package"] == "double_kernels" and told["refusals"] == ["two\x1b[2J: differs"]
