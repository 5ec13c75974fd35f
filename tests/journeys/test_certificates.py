"""From a search to a certificate, and the certificate repeated by real benches; nothing was measured."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.certificates.document import read, sealed
from tests.journeys.small import small_operator

pytestmark = pytest.mark.timeout(600)
REEF = (sys.executable, "-c", "from service.cli import main; main()")


def reef(*arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "REEF_DATA_DIR": str(data), "REEF_LOCAL_WORKERS": "1"}
    return subprocess.run([*REEF, *arguments], env=environment, cwd=data, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("reef")
    done = reef("search", str(small_operator(data)), "--evaluations", "2", "--json", data=data)
    assert done.returncode == 0, done.stderr
    best = json.loads(reef("best", "--json", data=data).stdout)
    path = data / "certificate.json"
    taken = reef("certificate", best["candidate"], "--out", str(path), data=data)
    assert taken.returncode == 0 and "PREDICTED" in taken.stdout, taken.stderr
    return path


def test_a_certificate_holds_on_the_same_machine_to_the_last_digit(written: Path) -> None:
    certificate = read(written.read_bytes()).certificate
    assert certificate.traced_alike and certificate.verdict.seed is not None and certificate.left_out == ()
    done = reef("verify", str(written), "--json", data=written.parent)
    told = json.loads(done.stdout)
    assert (done.returncode, told["holds"]) == (0, True), told
    assert {step["found"] for step in told["steps"]} == {"repeated"}
    figures = {step["name"]: step["figures"] for step in told["steps"]}
    for step in ("machine code", "trace", "reference", "correctness", "times"):
        assert figures[step] and all(each["then"] == each["now"] for each in figures[step]), step


def test_a_forged_one_does_not_hold_whoever_seals_it(written: Path) -> None:
    certificate = read(written.read_bytes()).certificate
    assert certificate.source is not None
    wrong = certificate.model_copy(update={"source": certificate.source.replace("tl.exp(", "tl.exp2(")})
    path = written.parent / "forged.json"
    path.write_text(sealed(wrong).text())
    done = reef("verify", str(path), "--json", data=written.parent)
    found = {step["name"]: step["found"] for step in json.loads(done.stdout)["steps"]}
    assert done.returncode == 4
    assert {name for name, said in found.items() if said == "differs"} == {"trace"}
    not_tried = "could not be repeated here"
    assert found["correctness"] == found["fresh inputs"] == not_tried, "it is not the source of its plans"
