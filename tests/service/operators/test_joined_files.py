"""A candidate in several files becomes one text that means the same."""

import importlib
import sys
from pathlib import Path, PurePath

import pytest

from service.errors import InvalidInput
from service.operators.joined_files import join_files, read_candidate, read_file

UTILS = "import math\n\nSIZE = 4\n\n\ndef double(x):\n    return 2 * x * math.floor(1.5)\n"


def joined(main: str, **others: str):
    texts = {PurePath(name.replace("__", "/") + ".py"): text for name, text in {"pkg__main": main, **others}.items()}
    return join_files(texts, PurePath("pkg/main.py"))


WAYS = {
    "a name": "from .utils import double\n\n\ndef f(x):\n    return double(x)\n",
    "another name": "from pkg.utils import double as twice\n\n\ndef f(x):\n    return twice(x)\n",
    "several lines": (
        "from .utils import (\n    SIZE,\n    double,\n)\n\n\ndef f(x):\n    return double(x) * SIZE // 4\n"
    ),
    "the file": "from . import utils\n\n\ndef f(x):\n    return utils.double(x) + utils.SIZE - utils.SIZE\n",
    "its dotted name": "import pkg.utils\n\n\ndef f(x):\n    return pkg.utils.double(x)\n",
    "an alias": "import pkg.utils as u\n\n\ndef f(x):\n    return u.double(x)\n",
    "everything": "from .utils import *\n\n\ndef f(x):\n    return double(x)\n",
    "beside others": "import operator as o, pkg.utils\n\n\ndef f(x):\n    return o.abs(pkg.utils.double(x))\n",
    "beside others, later": ("def f(x):\n    import operator, pkg.utils as u\n    return operator.abs(u.double(x))\n"),
    "later": "def f(x):\n    from .utils import double\n    return double(x)\n",
    "the future": (
        "from __future__ import annotations\nfrom .utils import double\n\n\ndef f(x: Later):\n    return double(x)\n"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_import_of_another_file_becomes_its_text(way):
    namespace = {}
    exec(joined(WAYS[way], pkg__utils=UTILS, pkg__other="1 / 0\n").text, namespace)
    assert namespace["f"](3) == 6


def test_files_that_are_imported_through_others_come_first():
    through = "from .utils import double\n\n\ndef more(x):\n    return double(double(x))\n"
    main = "from .through import more\nfrom .utils import double\n\n\ndef f(x):\n    return more(x) + double(x)\n"
    made = joined(main, pkg__through=through, pkg__utils=UTILS)
    namespace = {}
    exec(made.text, namespace)
    assert namespace["f"](1) == 6 and made.text.count("def double") == 1


def test_parts_of_a_package_bind_its_name_alike():
    made = joined(
        "import torch\nfrom .utils import x\n", pkg__utils="import torch.nn\nimport torch\nx = torch.nn.ReLU\n"
    )
    assert made.text.count("import torch") == 3


def test_another_import_of_the_statement_is_renamed_with_its_name():
    made = joined(
        "from .utils import double\nimport math as o\n\n\ndef f(x):\n    return double(x) + o.floor(0.5)\n",
        pkg__utils="import operator as o, pkg.more\n\n\ndef double(x):\n    return o.mul(x, pkg.more.TWO)\n",
        pkg__more="TWO = 2\n",
    )
    namespace = {}
    exec(made.text, namespace)
    assert namespace["f"](3) == 6


def test_one_module_may_be_imported_in_two_ways():
    made = joined(
        "import triton.language as tl\nfrom .utils import double\n",
        pkg__utils="from triton import language as tl\n\n\ndef double(x):\n    return 2 * x\n",
    )
    assert "import triton.language as tl" in made.text and "from triton import language as tl" in made.text


def test_what_a_package_hands_on_under_a_condition_is_one_thing():
    made = joined(
        "from .utils import double\n",
        pkg__utils="from .more import double\n\nif len('x'):\n    from .more import SIZE\n",
        pkg__more=UTILS,
    )
    assert made.text.count("def double") == made.text.count("SIZE = 4") == 1


def test_lines_are_told_by_their_file():
    made = joined(WAYS["several lines"], pkg__utils=UTILS)
    line = made.text.split("\n").index("def f(x):") + 1
    assert made.place(line) == "pkg/main.py, line 7"
    assert joined("x = 1\n").place(1) == "line 1"


APART = {
    "a constant": ("from .utils import double\nSIZE = 5\n\n\ndef f(x):\n    return double(x) * SIZE\n", {}),
    "a function": (
        "from .utils import quarter\n\n\ndef double(x):\n    return x - 1\n\n\n"
        "def f(x):\n    return double(x) + quarter(x)\n",
        {},
    ),
    "a name of its own for it": (
        "from .utils import double as twice\n\n\ndef double(x):\n    return x + 9\n\n\n"
        "def f(x):\n    return double(twice(x))\n",
        {},
    ),
    "a module": (
        "import cmath as math\nfrom .utils import double\n\n\ndef f(x):\n    return double(x) + math.pi\n",
        {},
    ),
    "a builtin": (
        "from .a import x\n\n\ndef f(y):\n    return max(y, x)\n",
        {"pkg__a": "def max(x, y):\n    return x\n\n\nx = max(1, 2)\n"},
    ),
    "a parameter": ("from . import utils\n\n\ndef f(double):\n    return utils.double(double)\n", {}),
    "equal functions over it": (
        "from .utils import double, quarter\nSIZE = 7\n\n\ndef quarter(x):\n    return x / SIZE\n\n\n"
        "def f(x):\n    return quarter(x) + double(x)\n",
        {"pkg__more": "x = 1\n"},
    ),
    "two files of a third": (
        "from .a import one\nfrom .b import other\n\n\ndef f(x):\n    return one(x) - other(x)\n",
        {
            "pkg__a": "from .utils import double as g\n\n\ndef one(x):\n    return g(x)\n",
            "pkg__b": "from .utils import quarter as g\n\n\ndef other(x):\n    return g(x)\n",
        },
    ),
    "handed on": (
        "from .a import double\n\nSIZE = double(2)\n\n\ndef f(x):\n    return double(x) + SIZE\n",
        {"pkg__a": "from .utils import double, SIZE\n\nWIDE = SIZE\n"},
    ),
    "everything": ("from .utils import *\n\nSIZE = 9\n\n\ndef f(x):\n    return quarter(x) + SIZE\n", {}),
    "later": (
        "SIZE = 9\n\n\ndef f(x):\n    from .utils import SIZE as size, quarter\n\n"
        "    return quarter(x) + SIZE * size\n",
        {},
    ),
    "within text": ("from .utils import said\n\nSIZE = 9\n\n\ndef f(x):\n    return said() + str(x + SIZE)\n", {}),
}
PLENTY = UTILS + '\n\ndef quarter(x):\n    return x / SIZE\n\n\ndef said():\n    return "SIZE" + str(SIZE)\n'


@pytest.mark.parametrize("what", APART)
def test_names_that_files_bind_differently_mean_what_they_do_in_a_package(what, tmp_path: Path, monkeypatch):
    main, others = APART[what]
    texts = {"pkg__main": main, "pkg__utils": PLENTY, **others}
    for name, text in texts.items():
        path = tmp_path / (name.replace("__", "/") + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for known in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
        monkeypatch.delitem(sys.modules, known)
    monkeypatch.syspath_prepend(tmp_path)
    right = importlib.import_module("pkg.main").f(3)
    namespace = {}
    exec(joined(main, pkg__utils=PLENTY, **others).text, namespace)
    assert namespace["f"](3) == right
    for known in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
        monkeypatch.delitem(sys.modules, known)


def test_a_name_of_one_file_alone_stays():
    made = joined("from .utils import double\nSIZE = 5\n", pkg__utils=UTILS)
    assert "utils_SIZE = 4" in made.text and "def double(x)" in made.text and "\nSIZE = 5" in made.text


REFUSED = {
    "a name that a function binds, too": (
        "from .utils import double\nSIZE = 5\n",
        {"pkg__utils": UTILS + "\n\ndef g(SIZE):\n    return SIZE\n"},
        "bind 'SIZE' to something else",
    ),
    "a name that is looked up": (
        "from .utils import double\nSIZE = 5\n",
        {"pkg__utils": UTILS + "\n\ndef g():\n    return globals()['SIZE']\n"},
        "bind 'SIZE' to something else",
    ),
    "a builtin that others read": (
        "from .utils import double\n\n\ndef max(x, y):\n    return x\n",
        {"pkg__utils": UTILS + "\nWIDE = max(1, 2)\n"},
        "binds 'max' to something else",
    ),
    "a circle": ("from .a import x\n", {"pkg__a": "from .main import y\nx = 1\n"}, "import each other"),
    "a parameter": (
        "from . import utils\n\n\ndef f(double):\n    return utils.double(double)\n",
        {"pkg__utils": UTILS + "\n\ndef g(double):\n    return double\n"},
        "rename one",
    ),
    "a shared line": ("x = 1; from .utils import double\n", {"pkg__utils": UTILS}, "a line of its own"),
    "no Python": ("def f(:\n", {}, "pkg/main.py, line 1"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_files_that_cannot_be_joined_are_refused_with_a_remedy(what):
    main, others, said = REFUSED[what]
    with pytest.raises(InvalidInput) as refused:
        joined(main, **others)
    assert said in refused.value.detail


def test_a_folder_is_read_by_the_file_that_defines_the_entry(tmp_path: Path):
    (tmp_path / "utils.py").write_text(UTILS)
    (tmp_path / "kernel.py").write_text("from utils import double\n\n\ndef f(x):\n    return double(x)\n")
    folder, files = (
        read_candidate([tmp_path], "f"),
        read_candidate([tmp_path / "kernel.py", tmp_path / "utils.py"], "f"),
    )
    assert folder.text == files.text and "def double" in folder.text
    assert read_candidate([tmp_path / "utils.py"], "f").text == UTILS
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "torch.py").write_text("import torch\n" + UTILS)
    main = "import torch\nfrom package.torch import double\n\n\ndef f(x):\n    return double(x)\n"
    (tmp_path / "package" / "main.py").write_text(main)
    deep = read_candidate([tmp_path / "package" / "main.py", tmp_path / "package" / "torch.py"], "f")
    assert deep.text.count("import torch") == 2 and "def double" in deep.text
    with pytest.raises(InvalidInput, match="must define 'g'; it is defined in: none"):
        read_candidate([tmp_path], "g")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path):
    with pytest.raises(InvalidInput, match="No such file"):
        read_candidate([tmp_path / "missing.py"], "f")
    (tmp_path / "latin.py").write_bytes(b"# \xe9\n")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_candidate([tmp_path / "latin.py"], "f")


def test_one_file_is_joined_with_those_beside_it_that_it_imports(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text(UTILS)
    (tmp_path / "other.py").write_text("1 / 0\n")
    (tmp_path / "main.py").write_text("from utils import double\n\n\ndef f(x):\n    return double(x) * undefined\n")
    made = read_candidate([tmp_path / "main.py"], "f")
    namespace = {"undefined": 5}
    exec(made.text, namespace)
    assert namespace["f"](3) == 30
    assert made.place(made.text.split("\n").index("    return double(x) * undefined") + 1) == "main.py, line 5"


def test_names_of_one_file_alone_are_renamed_in_others(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text(
        "def example_inputs():\n    return 1\n\n\ndef g():\n    return example_inputs()\n"
    )
    (tmp_path / "main.py").write_text("from utils import g\n")
    namespace = {}
    exec(read_file(tmp_path / "main.py", ("example_inputs",)).text, namespace)
    assert "example_inputs" not in namespace and namespace["g"]() == 1
    (tmp_path / "main.py").write_text("from utils import example_inputs, g\n")
    exec(read_file(tmp_path / "main.py", ("example_inputs",)).text, namespace)
    assert namespace["example_inputs"]() == 1
