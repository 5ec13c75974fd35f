"""The driver's tool tells the highest clocks of a card, as far as it is there and knows them."""

from pathlib import Path

import pytest

from tests.workers.sheets import H100
from workers.driver_tool import MaximumClocks, maximum_clocks, used_bytes

RATED = H100.model_copy(update={"clock_mhz": None})


def tool(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: int = 0) -> None:
    """Have `nvidia-smi` give this answer, and write down what it was asked."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\necho \"$@\" > {folder}/asked\necho '{answer}'\nexit {status}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_it_is_asked_for_one_card_by_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, monkeypatch, "1980, 2619")
    assert maximum_clocks("0000:1B:00.0") == MaximumClocks(1980, 2619)
    asked = (tmp_path / "asked").read_text()
    assert "clocks.max.sm,clocks.max.memory" in asked and asked.strip().endswith("-i 0000:1B:00.0")


@pytest.mark.parametrize(
    ("answer", "status", "clocks"),
    [
        ("[N/A], [N/A]", 0, MaximumClocks()),
        ("2100, [N/A]", 0, MaximumClocks(2100, None)),
        ("0, 0", 0, MaximumClocks()),
        ("1980, 2619", 9, MaximumClocks()),
        ("No devices were found", 0, MaximumClocks()),
    ],
)
def test_unknown_clocks_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: int, clocks: MaximumClocks
) -> None:
    tool(tmp_path, monkeypatch, answer, status)
    assert maximum_clocks("0000:1B:00.0") == clocks


def test_without_the_tool_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert maximum_clocks("0000:1B:00.0") == MaximumClocks() and used_bytes("0000:1B:00.0") is None


@pytest.mark.parametrize(("answer", "used"), [("1234", 1234 * 2**20), ("[N/A]", None), ("No devices", None)])
def test_memory_in_use_is_told_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, used: int | None
) -> None:
    tool(tmp_path, monkeypatch, answer)
    assert used_bytes("0000:1B:00.0") == used


def test_the_higher_clock_of_the_memory_counts() -> None:
    assert MaximumClocks(1980, 2500).added_to(RATED) == H100
    assert MaximumClocks(1980, 2700).added_to(RATED).memory_clock_mhz == 2700
    silent = RATED.model_copy(update={"memory_clock_mhz": None})
    assert MaximumClocks().added_to(silent).memory_clock_mhz is None
