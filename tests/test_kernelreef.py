"""The client as a user gets it: light, and as its page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.serving import Served

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "python-client.md"
PARTS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_it_needs_neither_torch_nor_a_database_nor_a_framework() -> None:
    heavy = {"alembic", "archive", "fastapi", "redis", "service", "sqlalchemy", "torch", "typer", "workers"}
    code = f"import sys, kernelreef.synchronous; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.timeout(300)
def test_the_page_s_examples_run(tmp_path: Path) -> None:
    assert len(PARTS) == 6
    with Served(tmp_path / "data", workers=1) as service:
        text = "\n".join(part.replace("http://127.0.0.1:8700", service.url) for part in PARTS)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", text],
            env={"REEF_URL": service.url, "PYTHONPATH": str(PAGE.parents[1])},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "preparing" in said and "done" in said
    assert "rmsnorm_" in said and "correct" in said
    assert said.endswith("stopped\n")
    assert (tmp_path / "found.zip").stat().st_size > 1000
