"""A program in compute-sanitizer's place: it takes the same options, and runs what it is told to."""

import stat
import sys
from pathlib import Path

from tests.workers.runner.plans import OPERATOR, bundle_of, kernel
from tests.workers.sanitizer.test_findings import CLEAN, MEMCHECK, UNATTACHED
from workers.protocol import CheckResult
from workers.sanitizer import find_sanitizer, tool
from workers.sanitizer.messages import BufferAllocation, ReplayRequest
from workers.sanitizer.tool import Sanitizer, judge

REHEARSAL = ReplayRequest(card=0, operator=OPERATOR, bundle=bundle_of(kernel()), machine_code={}, plans=(0,), seed="00")
PLACE = BufferAllocation(shape="N=4", name="input 'x'", address=0x1000, bytes=8)
PROGRAM = (sys.executable, "-c", "import sys; open(sys.argv[2], 'w').write(open(sys.argv[1]).read()[:0])")
VERSION = "NVIDIA (R) Compute Sanitizer\nCopyright\nVersion 2025.3.1.0 (build 1)\n"


def stand_in(folder: Path, says: str, status: int = 0) -> Path:
    path = folder / "compute-sanitizer"
    (folder / "says").write_text(says)
    (folder / "version").write_text(VERSION)
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec cat {folder}/version\n[ "$2" = memcheck ] || exit 9\n'
        f'shift 6\n"$@" || exit 8\ncat {folder}/says\nexit {status}\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_tool_is_found_on_the_path_or_in_a_toolkit(tmp_path: Path) -> None:
    assert find_sanitizer(path="", homes=[]) is None
    home = tmp_path / "cuda"
    (home / "bin").mkdir(parents=True)
    program = stand_in(home / "bin", CLEAN)
    found = Sanitizer(str(program), "2025.3.1.0 (build 1)")
    assert find_sanitizer(path=str(home / "bin"), homes=[]) == found
    assert find_sanitizer(path="", homes=[str(home)]) == found
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "compute-sanitizer").write_text("#!/bin/sh\nexit 1\n")
    (broken / "compute-sanitizer").chmod(0o755)
    assert find_sanitizer(path=str(broken), homes=[]) is None


def test_the_replaying_program_runs_under_the_tool(tmp_path: Path) -> None:
    clean = Sanitizer(str(stand_in(tmp_path, CLEAN)), "1").run("memcheck", REHEARSAL, PROGRAM)
    assert (clean.name, clean.verdict, clean.worst) == ("memcheck", "passed", 0.0)
    failed = Sanitizer(str(stand_in(tmp_path, MEMCHECK)), "1").run("memcheck", REHEARSAL, PROGRAM)
    assert failed.verdict == "failed" and failed.detail.startswith("memcheck: Invalid __global__ read")


def test_what_did_not_get_to_its_end_is_not_passed(tmp_path: Path, monkeypatch) -> None:
    program = Sanitizer(str(stand_in(tmp_path, CLEAN, status=1)), "1")
    assert program.run("memcheck", REHEARSAL, PROGRAM).verdict == "skipped"
    refused = program.run("racecheck", REHEARSAL, PROGRAM)
    assert refused.verdict == "skipped" and "status 9" in refused.detail
    assert "does not start" in Sanitizer(str(tmp_path / "none"), "1").run("memcheck", REHEARSAL).detail
    monkeypatch.setattr(tool, "RUN_S", 0.2)
    slow = program.run("memcheck", REHEARSAL, (sys.executable, "-c", "import time; time.sleep(9)"))
    assert slow.detail == "it did not finish within 0.2 s"


HOARDERS = """
import json, sys
NEEDS = {0: 1, 1: 2, 2: 2, 3: 9, 4: 1}
room, told = 3, open(sys.argv[2], "w")
with open(sys.argv[3], "a") as log:
    plans = json.load(open(sys.argv[1]))["plans"]
    print(*plans, file=log)
    for plan in plans:
        room -= NEEDS[plan]
        if room < 0:
            print(json.dumps({"plan": plan, "shape": f"N={plan}"}), file=told)
            break
        print(json.dumps({"shape": f"N={plan}", "name": "x", "address": 4096, "bytes": 8}), file=told)
"""


def hoard(folder: Path, says: str, *plans: int) -> tuple[CheckResult, list[str]]:
    """What comes of plans on a card that holds few of them, and what each process was asked for."""
    (folder / "hoarders.py").write_text(HOARDERS)
    log = folder / "log"
    log.write_text("")
    code = f"import sys; sys.argv.append({str(log)!r}); exec(open({str(folder / 'hoarders.py')!r}).read())"
    tool = Sanitizer(str(stand_in(folder, says)), "1")
    asked = REHEARSAL.model_copy(update={"plans": plans})
    return tool.run("memcheck", asked, (sys.executable, "-c", code)), log.read_text().splitlines()


def test_plans_that_fill_the_card_together_run_in_several_processes(tmp_path: Path) -> None:
    result, processes = hoard(tmp_path, CLEAN, 0, 1, 2, 4)
    assert (result.verdict, result.detail) == ("passed", "4 shapes")
    assert processes == ["0 1 2 4", "2 4"]


def test_a_plan_that_has_no_room_alone_is_named_and_the_others_run(tmp_path: Path) -> None:
    result, processes = hoard(tmp_path, CLEAN, 0, 3, 4)
    assert result.verdict == "skipped" and processes == ["0 3 4", "3 4", "4"]
    assert result.detail == "the card has not enough memory for N=3; nothing was found at 2 others"
    assert hoard(tmp_path, CLEAN, 3)[0].detail.endswith("nothing was found at 0 others")


def test_a_finding_counts_beside_a_plan_without_room(tmp_path: Path) -> None:
    assert hoard(tmp_path, MEMCHECK, 3, 0)[0].verdict == "failed"
    assert hoard(tmp_path, UNATTACHED, 3, 0)[0].verdict == "skipped"


def test_the_tools_own_count_decides() -> None:
    assert judge("memcheck", CLEAN, 0, [PLACE]).detail == "1 shapes"
    for output, status in ((UNATTACHED, 0), (CLEAN, 3), ("", 0), (CLEAN.replace("0 errors", "2 errors"), 0)):
        assert judge("memcheck", output, status, [PLACE]).verdict == "skipped"
    twice = judge("memcheck", MEMCHECK + MEMCHECK, 1, [PLACE])
    assert (twice.verdict, twice.worst, twice.detail.count("memcheck:")) == ("failed", 2.0, 1)
