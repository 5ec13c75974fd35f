"""A service is found while it serves, and only then."""

import json
import stat
import subprocess
import sys
from pathlib import Path

from service.discovery import FILE, discoverable, find_service

URL = "http://127.0.0.1:8700"
KILLED = """
import os, sys
from pathlib import Path
from service.discovery import discoverable
with discoverable(Path(sys.argv[1]), "http://127.0.0.1:1"):
    os._exit(0)
"""


def test_a_service_is_found_while_it_serves(tmp_path: Path) -> None:
    assert find_service(tmp_path) is None
    with discoverable(tmp_path, URL):
        assert find_service(tmp_path) == URL
        assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert find_service(tmp_path) is None and not (tmp_path / FILE).exists()


def test_what_a_killed_service_left_counts_for_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=True)
    assert json.loads((tmp_path / FILE).read_text())["url"] == "http://127.0.0.1:1"
    assert find_service(tmp_path) is None
    with discoverable(tmp_path, URL):
        assert find_service(tmp_path) == URL


def test_a_broken_file_is_no_service(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[")
    assert find_service(tmp_path) is None
