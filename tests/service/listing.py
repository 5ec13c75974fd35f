"""The driver's tool for tests: it lists the cards that a test says, so that no test depends on the machine's own."""

from pathlib import Path

import pytest


def list_cards(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have `nvidia-smi -L` list cards of these names."""
    lines = [f"GPU {number}: {name} (UUID: GPU-{number})" for number, name in enumerate(names)]
    tool = folder / "nvidia-smi"
    tool.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
