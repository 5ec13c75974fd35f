"""A package is written into a folder that holds nothing yet."""

from pathlib import Path

import pytest

from kernelreef.errors import InvalidInput
from kernelreef.packages import Package

PACKAGE = Package("my_kernels", {"pyproject.toml": "[project]\n", "my_kernels/__init__.py": "é = 1\n"}, {}, {}, ())


def test_every_file_is_written(tmp_path: Path) -> None:
    folder = PACKAGE.write(tmp_path / "new" / "package")
    assert (folder / "my_kernels/__init__.py").read_bytes() == "é = 1\n".encode()
    assert (folder / "pyproject.toml").read_text() == "[project]\n"


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1\n")
    with pytest.raises(InvalidInput, match="is not empty"):
        PACKAGE.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]
    with pytest.raises(InvalidInput, match="Not a directory"):
        PACKAGE.write(tmp_path / "mine.py" / "below")
