"""Helper that runs a script of kernels in Triton's interpreter, in its own process."""

import json
import os
import subprocess
import sys
from pathlib import Path

HEADER = (
    "import json\nimport torch\nimport triton\nimport triton.language as tl\nnan, inf = float('nan'), float('inf')\n\n"
)


def interpreted(source: str, folder: Path) -> list:
    """Return the JSON that a script prints."""
    script = folder / "script.py"
    script.write_text(HEADER + source)
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    found = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)
