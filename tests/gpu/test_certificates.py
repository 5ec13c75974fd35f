"""A certificate of measured figures: written after a search on the card, and repeated on it.

Looks at the document from outside, as somebody would who has nothing of ours but its description.
"""

import hashlib
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from workers.protocol import Device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(find_spec("sqlalchemy") is None, reason="searches need the extra [service]"),
]
REEF = (sys.executable, "-c", "from service.cli import main; main()")
REEF_S = 900
"""Seconds for one command; the first search of an operator also times torch.compile with max-autotune."""


def reef(*arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "REEF_DATA_DIR": str(data)}
    command = [*REEF, *arguments]
    return subprocess.run(command, env=environment, cwd=data, capture_output=True, text=True, timeout=REEF_S)


def sealed(certificate: dict[str, Any]) -> str:
    """A certificate with the id that docs/how-to/certificates.md says it has."""
    body = {name: value for name, value in certificate.items() if name != "id"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return json.dumps({**body, "id": hashlib.sha256(text.encode()).hexdigest()})


@pytest.fixture(scope="module")
def written(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("reef")
    done = reef("search", "softmax", "--device", device.name, "--evaluations", "2", "--json", data=data)
    assert done.returncode == 0, done.stderr[-2000:]
    best = json.loads(reef("best", "--json", data=data).stdout)
    path = data / "certificate.json"
    taken = reef("certificate", best["candidate"], "--out", str(path), data=data)
    assert taken.returncode == 0 and "MEASURED" in taken.stdout, taken.stderr[-2000:]
    return path


def test_it_says_what_was_measured_and_why_it_is_not_trusted_more(written: Path, device: Device) -> None:
    certificate = json.loads(written.read_text())
    assert json.loads(sealed(certificate))["id"] == certificate["id"]
    assert (certificate["device"], certificate["provenance"]) == (device.name, "measured")
    assert certificate["traced_alike"] and certificate["pacer"] and certificate["verdict"]["kind"] == "confirm"
    assert certificate["trust"] == "B" and any("second card" in reason for reason in certificate["trust_reasons"])
    assert certificate["verdict"]["controls"] and certificate["verdict"]["grounds"]["agreed"]
    assert certificate["verdict"]["seed"] is None and any("secrets" in said for said in certificate["left_out"])
    for shape in certificate["verdict"]["shapes"]:
        assert len(shape["samples"]["candidate_us"]) == len(shape["samples"]["other_us"]) >= 4
        assert all(clock > 100 for clock in shape["samples"]["clocks_mhz"])
        assert shape["baselines_us"] and shape["pacer_us"]


def test_it_holds_on_the_same_card(written: Path, device: Device) -> None:
    done = reef("verify", str(written), "--json", data=written.parent)
    told = json.loads(done.stdout)
    assert (done.returncode, told["holds"], told["device"]) == (0, True, device.name), told
    assert {step["found"] for step in told["steps"]} == {"repeated"}, told


def test_a_forged_time_is_found_out_on_the_card(written: Path) -> None:
    certificate = json.loads(written.read_text())
    for shape in certificate["verdict"]["shapes"]:
        for figure in ("low_us", "mid_us", "high_us"):
            shape[figure] /= 2
    path = written.parent / "forged.json"
    path.write_text(sealed(certificate))
    done = reef("verify", str(path), "--json", data=written.parent)
    found = {step["name"]: step["found"] for step in json.loads(done.stdout)["steps"]}
    assert done.returncode == 4 and (found["digest"], found["times"]) == ("repeated", "differs")
