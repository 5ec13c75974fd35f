"""Folders of published kernels: adapters, and that what is ours of each folder can be built from a mirror."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from benchmarks.published_folders import KERNELS, build, edited, size
from benchmarks.published_lot import LOT
from service.operators.catalogue import load_operator

FETCHED = "import torch\n\n\ndef double(x, out):\n    out.copy_(x * 2)\n"
KERNEL = """
repository = "someone/kernels"
commit = "{commit}"
path = "double.py"
operator = "twice"
files = ["pieces/other.py"]

[[edits]]
after = 4
delete = 1
text = '''
    out.copy_(x + x)
'''

[[edits]]
text = '''
def twice(x):
    return double(x, torch.empty_like(x))
'''
"""


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ([], "a\nb\nc\n"),
        ([{"after": 0, "text": "z"}], "z\na\nb\nc\n"),
        ([{"after": 1, "delete": 1}], "a\nc\n"),
        ([{"text": "d\n"}, {"after": 0, "delete": 2, "text": "y\nz\n"}], "y\nz\nc\nd\n"),
    ],
)
def test_edits_are_of_the_lines_as_fetched(edits: list[dict[str, object]], text: str) -> None:
    assert edited("a\nb\nc\n", edits) == text


@pytest.mark.parametrize("edit", [{"after": 3, "delete": 1}, {"after": 4}, {"after": -1}])
def test_an_edit_outside_of_the_file_is_an_error(edit: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="are not in a file of 3 lines"):
        edited("a\nb\nc\n", [edit])


def test_lines_of_jit_functions_and_empty_ones_do_not_count() -> None:
    text = "import torch\n\n@triton.jit\ndef k(x):\n    pass\n\ndef f(x):\n    return k[1,](x)\n"
    assert size([{"text": text}]) == 3
    assert size([{"after": 1, "delete": 4, "text": "x = 1\n"}, {"text": "    indented = True\n"}]) == 5


def test_a_folder_is_built_from_a_mirror(tmp_path: Path) -> None:
    mirror = tmp_path / "mirrors" / "someone" / "kernels"
    (mirror / "pieces").mkdir(parents=True)
    (mirror / "double.py").write_text(FETCHED)
    (mirror / "pieces" / "other.py").write_text("THREE = 3\n")
    git = ["git", "-C", str(mirror), "-c", "user.name=n", "-c", "user.email=e"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    (mirror / "double.py").write_text("changed since\n")
    kernel = tmp_path / "001_twice"
    (kernel / "operator").mkdir(parents=True)
    (kernel / "operator" / "operator.toml").write_text("name = 'twice'\n")
    (kernel / "kernel.toml").write_text(KERNEL.format(commit=commit))

    build(kernel, tmp_path / "mirrors", tmp_path / "built")

    candidate = tmp_path / "built" / "candidate"
    assert (candidate / "double.py").read_text().splitlines()[4:] == [
        "    out.copy_(x + x)",
        "def twice(x):",
        "    return double(x, torch.empty_like(x))",
    ]
    assert (candidate / "pieces" / "other.py").read_text() == "THREE = 3\n"
    assert (tmp_path / "built" / "operator" / "operator.toml").exists()
    told = json.loads((tmp_path / "built" / "kernel.json").read_text())
    assert (told["main"], told["edits"], told["commit"]) == ("double.py", 3, commit)
    with pytest.raises(FileNotFoundError, match="someone/kernels"):
        build(kernel, tmp_path / "nowhere", tmp_path / "built")


@pytest.mark.parametrize("kernel", sorted(KERNELS.iterdir()), ids=lambda path: path.name)
def test_every_kernel_is_of_the_lot_and_has_an_operator(kernel: Path) -> None:
    about = tomllib.loads((kernel / "kernel.toml").read_text())
    line = LOT.read_text().splitlines()[int(kernel.name.partition("_")[0]) - 1]
    assert line.split("\t") == [about["repository"], about["commit"], about["path"]]
    assert size(about.get("edits", [])) <= 8
    assert load_operator(str(kernel / "operator")).name == about["operator"]
    assert {path.name for path in kernel.rglob("*") if path.is_file()} == {
        "kernel.toml",
        "operator.toml",
        "reference.py",
    }
