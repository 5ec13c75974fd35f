"""A program in ncu's place: it takes the same options, writes a report, and prints pages of it."""

import stat
import sys
from pathlib import Path

import pytest

from tests.workers.profiler.pages import RAW, REFUSED, SOURCE, UNLOADED
from tests.workers.runner.plans import OPERATOR, bundle_of, kernel
from workers.profiler import nsight
from workers.profiler.nsight import REFUSED as SAID
from workers.profiler.nsight import NsightCompute, NsightFailed, find_nsight, joined, scratch_environment, why
from workers.sanitizer.messages import ReplayRequest

REPLAY = ReplayRequest(card=0, operator=OPERATOR, bundle=bundle_of(kernel()), machine_code={}, plans=(0,), seed="00")
PROGRAM = (sys.executable, "-c", "import sys; assert open(sys.argv[1]).read(); open(sys.argv[2], 'w')")
TOOL = f"""#!{sys.executable}
import os, subprocess, sys
here, options = os.path.dirname(os.path.abspath(__file__)), sys.argv[1:]
open(os.path.join(here, "home"), "a").write(os.environ["HOME"] + "\\n")
open(os.path.join(os.environ["HOME"], "left by the tool"), "w")
if "--import" in options:
    assert os.path.isfile(options[options.index("--import") + 1])
    print(open(os.path.join(here, options[options.index("--page") + 1])).read())
else:
    said = os.path.join(here, "said")
    subprocess.run(options[options.index("--force-overwrite") + 1:], check=True)
    if os.path.exists(said):
        print(open(said).read())
        sys.exit(1)
    open(options[options.index("--export") + 1], "w")
"""


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "ncu"
    path.parent.mkdir()
    path.write_text(TOOL)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (path.parent / "raw").write_text(RAW)
    (path.parent / "source").write_text(SOURCE)
    return path


def test_the_tool_is_found_on_the_path_or_in_a_toolkit(tool: Path, tmp_path: Path) -> None:
    assert find_nsight(path="", homes=[]) is None
    assert find_nsight(path=str(tool.parent), homes=[]) == NsightCompute(str(tool))
    assert find_nsight(path="", homes=[str(tmp_path)]) == NsightCompute(str(tool))


def test_the_replay_program_runs_under_the_tool_whose_files_go_away(tool: Path) -> None:
    first, second = NsightCompute(str(tool)).run(REPLAY, 2, PROGRAM)
    assert first.counters["time_us"] == 47.104 and second.counters["time_us"] == 2.048
    assert [len(each.instructions) for each in (first, second)] == [4, 1]
    (home,) = set((tool.parent / "home").read_text().split("\n")[:-1])
    assert "reef-profile-" in home and not Path(home).exists()


@pytest.mark.parametrize(
    ("said", "reason"),
    [(REFUSED, SAID), (UNLOADED, "Nsight Compute failed: Failed to initialize the profiler: LibraryNotLoaded")],
)
def test_a_refusal_is_said_in_one_line(tool: Path, said: str, reason: str) -> None:
    (tool.parent / "said").write_text(said)
    with pytest.raises(NsightFailed) as caught:
        NsightCompute(str(tool)).run(REPLAY, 1, PROGRAM)
    assert str(caught.value) == reason and "\n" not in reason


def test_a_tool_that_hangs_or_does_not_start_is_said(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NsightFailed, match="does not start"):
        NsightCompute(str(tool.with_name("none"))).run(REPLAY, 1, PROGRAM)
    monkeypatch.setattr(nsight, "RUN_S", 0.3)
    with pytest.raises(NsightFailed, match=r"did not finish within 0\.3 s"):
        NsightCompute(str(tool)).run(REPLAY, 1, (sys.executable, "-c", "import time; time.sleep(60)"))


def test_pages_that_do_not_match_cost_the_instructions_alone() -> None:
    assert [launch.instructions for launch in joined(RAW, "")] == [(), ()]
    assert [launch.instructions for launch in joined(RAW, SOURCE.split('"Kernel Name"')[1])] == [(), ()]
    with pytest.raises(NsightFailed, match="no launch of the plan"):
        joined(RAW.replace('"kernel', '"other'), SOURCE)
    with pytest.raises(NsightFailed, match="no counters"):
        joined("", SOURCE)


def test_nothing_printed_is_said_too() -> None:
    assert why(" \n") == "Nsight Compute failed: it printed nothing"


def test_the_tool_gets_a_home_of_its_own_and_python_its_packages(tmp_path: Path) -> None:
    found = scratch_environment({"HOME": "/root", "PYTHONUSERBASE": "/base", "PATH": "/bin"}, tmp_path)
    assert (found["HOME"], found["TMPDIR"], found["PYTHONUSERBASE"], found["PATH"]) == (
        *(str(tmp_path),) * 2,
        "/base",
        "/bin",
    )
