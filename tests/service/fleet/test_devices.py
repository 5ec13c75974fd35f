"""Which devices can be judged on, and which cards are here: by the driver's tool, or by its files."""

from pathlib import Path

import pytest

from service.errors import InvalidInput
from service.fleet.devices import find_card, local_cards, require_judgeable
from tests.service.listing import list_cards
from workers.protocol import Device


def test_the_drivers_tool_lists_the_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA L40S", "NVIDIA H200", "NVIDIA H200")
    assert local_cards() == ("NVIDIA L40S", "NVIDIA H200", "NVIDIA H200")
    assert [find_card(Device.parse(name)) for name in ("l40s", "h200", "h100", "model:sm_90")] == [0, 1, None, None]


def test_without_the_tool_the_drivers_files_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    for bus, name in (("0000:1b:00.0", "NVIDIA H200"), ("0000:0a:00.0", "NVIDIA A100-SXM4-80GB")):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(f"Model: \t\t {name}\nIRQ:   \t\t 42\nBus Location: \t {bus}\n")
    assert local_cards(tmp_path) == ("NVIDIA A100-SXM4-80GB", "NVIDIA H200")
    assert local_cards(tmp_path / "0000:0a:00.0") == ()


@pytest.mark.parametrize("name", ["h200", "a100", "model:sm_90", "model:gfx942", "recorded:h200"])
def test_cards_of_one_vendor_and_models_can_be_judged_on(name: str) -> None:
    require_judgeable(Device.parse(name), "devices")
    assert Device.parse(name).name == name


@pytest.mark.parametrize("name", ["recorded:mi300x", "mi300x", "model:sm_1"])
def test_what_nothing_can_judge_on_is_refused_with_what_can(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"model:<target>|known: ") as caught:
        require_judgeable(Device.parse(name), "devices")
    assert caught.value.field == "devices"
