"""The driver's tool for tests: it lists the cards that a test says, so that no test depends on the machine's own."""

from pathlib import Path

import pytest

CAPABILITIES = {"Tesla T4": "7.5", "NVIDIA H200": "9.0", "NVIDIA H100 80GB HBM3": "9.0", "NVIDIA A10": "8.6"}
"""Compute capabilities of cards; 8.9 for others."""


def list_cards(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str, mig: str = "[N/A]") -> None:
    """Have `nvidia-smi` list cards of these names, with 24 GB each."""
    lines = [f"{name}, {CAPABILITIES.get(name, '8.9')}, 24564, {mig}" for name in names]
    tool = folder / "nvidia-smi"
    tool.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
