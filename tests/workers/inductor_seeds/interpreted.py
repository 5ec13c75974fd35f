"""Runs a script of kernels in Triton's interpreter, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

HEADER = (
    "import json\nimport torch\nimport triton\nimport triton.language as tl\nnan, inf = float('nan'), float('inf')\n\n"
)


def interpreted(source: str, folder: Path) -> list:
    """What a script prints as JSON."""
    script = folder / "script.py"
    script.write_text(HEADER + source)
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    found = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)
