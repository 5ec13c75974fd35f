"""Usual mistakes on the command line: one line that names the option and a valid value, an exit code, no traceback.

Each case runs the command's own `main`. Those about a server, and one of each kind, run in a process of their own.
"""

import asyncio
import logging
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from uuid6 import uuid7

from service.cli import main
from service.security.authentication import issue
from service.security.scopes import Scope
from tests.archive.samples import OPERATOR, new_search, stored_search
from tests.archives import opened
from tests.service.serving import REEF, Served, free_port

SPEC = """
name = "double"
entry = "double"
reference = "reference.py"
inputs = [{name = "x", shape = ["N"], dtype = "float32"}]
outputs = [{name = "y", dtype = "float32"}]
shapes = [{N = 64}]
ranges = {N = [1, 64]}
"""
REFERENCE = "def double(x):\n    return x * 2\n"
BACKENDS = """
[backends.claude]
kind = "anthropic"
model = "a-model"
base_url = "https://example.org"
key_env = "REEF_TEST_KEY_THAT_NOBODY_SET"
"""
UNKNOWN = "0190a000-0000-7000-8000-000000000000"
SAME_END = "0ddba11"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, processors = root.handlers[:], root.level, structlog.get_config()
    yield
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**processors)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with two searches whose ids end alike."""
    folder = tmp_path_factory.mktemp("data")
    asyncio.run(_fill(folder))
    (folder / "backends.toml").write_text(BACKENDS)
    return folder


async def _fill(folder: Path) -> None:
    async with opened(folder) as store:
        await stored_search(store, id=f"{str(uuid7())[: -len(SAME_END)]}{SAME_END}")
        await store.searches.create(new_search(operator=OPERATOR, id=f"{str(uuid7())[: -len(SAME_END)]}{SAME_END}"))


@pytest.fixture
def run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Run `reef` in a folder of its own: exit code, standard output, standard error."""
    for name in [name for name in os.environ if name.startswith("REEF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REEF_DATA_DIR", str(data))
    monkeypatch.setenv("REEF_LOCAL_WORKERS", "0")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)

    def reef(*arguments: str, **environment: str) -> tuple[int, str, str]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.argv", ["reef", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    yield reef


def operator(folder: Path, old: str = "", new: str = "") -> str:
    """Write a spec with one change, and return its folder."""
    assert old in SPEC
    home = folder / "double"
    home.mkdir()
    (home / "operator.toml").write_text(SPEC.replace(old, new, 1) if old else SPEC)
    (home / "reference.py").write_text(REFERENCE)
    return str(home)


def one_line(code: int, out: str, err: str, said: str, expected: int = 2) -> None:
    """Require that an error is one line that matches a pattern, and nothing else."""
    assert (code, out) == (expected, ""), err
    assert err.count("\n") == 1 and "Traceback" not in err, err
    assert re.match(rf"reef: {said}", err), err
    assert not re.search(r"Input should|Extra inputs|Field required|validation error", err), err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ranges =", "rangse =", r"rangse: unknown name; did you mean 'ranges'\?"),
        ('dtype = "float32"}]', 'dtype = "f32"}]', r"inputs\[0\]\.dtype: 'f32' is not one of .*(mean|write)"),
        ('name = "double"', 'name = "Double It"', r"name: must match .* not 'Double It'; write the operator's name in"),
    ],
    ids=["unknown field", "dtype", "name"],
)
def test_a_spec_with_a_mistake(run: Run, tmp_path: Path, old: str, new: str, said: str) -> None:
    one_line(*run("submit", operator(tmp_path, old, new)), said)


def test_a_spec_without_seeds_gets_one_or_is_told_why_not(run: Run, tmp_path: Path) -> None:
    folder = operator(tmp_path)
    code, out, err = run("submit", folder)
    assert code == 0 and out.strip() and "TorchInductor writes a seed kernel" in err, err
    (Path(folder) / "reference.py").write_text(
        "import torch\n\n\ndef double(x):\n    return torch.complex(x, x).pow(2.5).real\n"
    )
    code, out, err = run("submit", folder)
    assert (code, out) == (2, "") and "Traceback" not in err, err
    assert re.search(
        r"^reef: problem: this problem has no seed kernel: TorchInductor has no Triton kernel.*; write its folder",
        err,
        re.MULTILINE,
    ), err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def gelu(x:\n", r"syntax_error \(line 1\)\n.*never closed"),
        (
            "import torch\n\n\ndef gelu(x):\n    return (x, x)\n",
            r"wrong_output_type .*\nreturns 2 results; the operator has 1",
        ),
        (
            "import numpy\n\n\ndef gelu(x):\n    return numpy.tanh(x)\n",
            r"forbidden_import \(line 1\)\nimports 'numpy'; a candidate may",
        ),
    ],
    ids=["syntax error", "tuple", "numpy"],
)
def test_a_candidate_with_a_mistake_is_a_result(run: Run, tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "candidate.py").write_text(source)
    code, out, err = run("judge", "gelu", "candidate.py")
    assert (code, err) == (4, "")
    assert re.match(said, out) and "Traceback" not in out, out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["glu"], r"SPEC: there is no operator 'glu'; did you mean 'gelu'\?"),
        (["gelu", "--device", "h201"], r"--device: 'h201' .*h200"),
        (["gelu", "--emitters", "tun"], r"--emitters: 'tun' is not one of: .*; did you mean 'tune'\?"),
        (["gelu", "--emitters", "llm", "--llm", "clade"], r"--llm: 'clade' is not a backend; .*claude"),
        (
            ["gelu", "--emitters", "llm", "--llm", "manual", "--llm-strategies", "improv"],
            r"--llm-strategies: 'improv' is not one of: .*; did you mean 'improve'\?",
        ),
        (["gelu", "--llm", "claude"], r"--llm: 'claude' takes no calls: .*_THAT_NOBODY_SET.*backends list"),
        (["gelu", "--stop", "platau=3"], r"--stop platau: unknown name; did you mean 'plateau'\?"),
        (["gelu", "--stop", "plateau=soon"], r"--stop plateau: must be a whole number, not 'soon'"),
        (["gelu", "--evaluations", "0"], r"--evaluations: must be 1 or more, not 0"),
        (["gelu", "--evaluation", "7"], r"no such option: --evaluation; did you mean --evaluations"),
        (["mine.py"], r"SPEC: 'mine.py' does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_option_with_a_mistake(run: Run, arguments: list[str], said: str) -> None:
    one_line(*run("submit", *arguments), said)


def test_a_search_on_a_card_that_is_not_here_ends_at_once(run: Run) -> None:
    said = run("search", "gelu", "--device", "b200", REEF_LOCAL_WORKERS="1")
    one_line(*said, r"--device: b200: no worker has this card; ")


def test_a_card_that_is_not_here(run: Run, tmp_path: Path) -> None:
    (tmp_path / "candidate.py").write_text("import torch\n")
    one_line(
        *run("judge", "gelu", "candidate.py", "--device", "b200"), r"--device: b200: this machine does not have it; "
    )


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("/proc/no-such-folder", "REEF_DATA_DIR: /proc/no-such-folder cannot be made or written: .*; name a folder"),
        ("/etc/passwd", "REEF_DATA_DIR: /etc/passwd is a file; name a folder that may be written"),
        ("/proc", "REEF_DATA_DIR: /proc cannot be made or written: .*; name a folder"),
    ],
    ids=["cannot be made", "file", "read-only"],
)
@pytest.mark.parametrize("command", [("searches",), ("submit", "gelu"), ("migrate",)], ids=" ".join)
def test_a_data_folder_that_cannot_be_used(run: Run, command: tuple[str, ...], folder: str, said: str) -> None:
    one_line(*run(*command, REEF_DATA_DIR=folder), said)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("REEF_PORT", "many", "REEF_PORT: must be a whole number"),
        ("REEF_LOG_LEVEL", "loud", "REEF_LOG_LEVEL: it is not one of debug, info, warning, error"),
        ("REEF_URL", "127.0.0.1:8700", "REEF_URL: must start with one of: http://, https://"),
    ],
)
def test_a_setting_with_a_mistake(run: Run, setting: str, value: str, said: str) -> None:
    one_line(*run("searches", **{setting: value}), said)


def test_an_address_without_a_scheme(run: Run) -> None:
    one_line(
        *run("searches", "--url", "127.0.0.1:8700"), r"--url: '127\.0\.0\.1:8700' must begin with http:// or https://"
    )


def test_an_address_where_nobody_answers(run: Run) -> None:
    one_line(*run("searches", "--url", f"http://127.0.0.1:{free_port()}"), r"127\.0\.0\.1:\d+ does not answer: ", 1)


@pytest.mark.parametrize(
    ("id", "said"),
    [
        (UNKNOWN, f"there is no search {UNKNOWN}"),
        ("abcdef", "there is no search abcdef"),
        ("abc", "there is no search 'abc'; give its id, or the last 6 characters of it"),
        (SAME_END, f"{SAME_END} is short for several: .*{SAME_END}, .*{SAME_END}; give more characters"),
    ],
    ids=["unknown", "short unknown", "too short", "ambiguous"],
)
@pytest.mark.parametrize("command", ["best", "pause"])
def test_an_id_with_a_mistake(run: Run, command: str, id: str, said: str) -> None:
    one_line(*run(command, id), said)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A service that asks for tokens."""
    folder = tmp_path_factory.mktemp("served") / "data"
    folder.mkdir()

    async def close_doors() -> None:
        async with opened(folder) as store:
            await issue(store, "ada", [Scope.READ])

    asyncio.run(close_doors())
    with Served(folder) as served:
        yield served, folder


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("reef_wrong", "--token: this is not a token; a complete token starts with 'reef_'"),
        ("", "--token: authentication is required"),
    ],
)
def test_a_wrong_token(run: Run, service: tuple[Served, Path], token: str, said: str) -> None:
    one_line(*run("searches", "--url", service[0].url, "--token", token), said)


def test_two_services_on_one_data_folder(run: Run, service: tuple[Served, Path]) -> None:
    served = run("serve", "--port", str(free_port()), REEF_DATA_DIR=str(service[1]))
    one_line(*served, r"another process uses .*; stop it, or give this one another REEF_DATA_DIR")


def test_a_port_in_use(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        one_line(*run("serve", "--port", str(port)), rf"--port: 127\.0\.0\.1:{port} is taken; choose another port")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["submit", "glu"], 2, "reef: SPEC: there is no operator 'glu'"),
        (["serch"], 2, "reef: no such command 'serch'; did you mean 'search'"),
        (["best", UNKNOWN], 2, f"reef: there is no search {UNKNOWN}"),
    ],
)
def test_a_process_ends_with_the_same_line_and_code(
    data: Path, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    known = {name: value for name, value in os.environ.items() if not name.startswith("REEF_")}
    environment = {**known, "REEF_DATA_DIR": str(data), "REEF_LOCAL_WORKERS": "0"}
    ended = subprocess.run(
        [*REEF, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith(said) and ended.stderr.count("\n") == 1, ended.stderr
