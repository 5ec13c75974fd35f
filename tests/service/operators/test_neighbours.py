"""Files beside a file are read if its imports name them, and no others."""

from pathlib import Path

import pytest

from service.errors import InvalidInput
from service.operators import neighbours
from service.operators.neighbours import with_neighbours


def read(path: Path, **files: str) -> set[str]:
    """Return the names of the files that are read with `main.py`, from the folder."""
    for name, text in files.items():
        file = path / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    main = path / "main.py"
    texts = with_neighbours(main, Path.read_text)
    assert next(iter(texts)) == main
    return {str(file.relative_to(path)) for file in texts} - {"main.py"}


@pytest.mark.parametrize(
    "statement, found",
    [
        ("import a", {"a.py"}),
        ("import a as b", {"a.py"}),
        ("from a import f", {"a.py"}),
        ("from .a import f", {"a.py"}),
        ("from . import a", {"a.py"}),
        ("from package import inner", {"package/inner.py"}),
        ("from package.inner import f", {"package/inner.py"}),
        ("import package.inner", {"package/inner.py"}),
        ("try:\n    import a\nexcept ImportError:\n    from package import inner", {"a.py", "package/inner.py"}),
        ("from through import f", {"through.py", "a.py"}),
        ("import torch, math, numpy, absent", set()),
        ("from torch import nn", set()),
        ("if __name__ == '__main__':\n    import a", set()),
        ("if TYPE_CHECKING:\n    import a", set()),
        ("def bench():\n    import a", set()),
        ("from ....... import a", set()),
        ("def f(:", set()),
    ],
)
def test_files_that_imports_name_are_read(tmp_path: Path, statement: str, found: set[str]) -> None:
    others = {
        "a": "x = 1\n",
        "package__inner": "",
        "through": "from a import x as f\n",
        "math": "",
        "torch": "",
        "b": "",
    }
    assert read(tmp_path, main=f"{statement}\n", **others) == found


def test_files_that_import_each_other_are_read_once(tmp_path: Path) -> None:
    assert read(tmp_path, main="import a\n", a="import b\nimport main\n", b="import a\n") == {"a.py", "b.py"}


def test_a_library_is_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "MOST_FILES", 3)
    with pytest.raises(InvalidInput, match="more than 3 files beside it: install them"):
        read(tmp_path, main="import a, b, c\n", a="", b="", c="")
