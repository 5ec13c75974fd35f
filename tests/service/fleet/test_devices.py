"""Devices that can be judged on, and cards that are here: by the driver's tool, or by its files."""

from pathlib import Path

import pytest

from service.errors import InvalidInput
from service.fleet.devices import (
    NO_CARD,
    LocalCard,
    benches_for,
    card_named,
    choose_devices,
    class_served,
    describe_cards,
    find_card,
    local_cards,
    may_measure,
    names_card,
    read_device,
    require_judgeable,
)
from tests.service.listing import list_cards
from workers.protocol import Device

H200, L40S = Device.parse("h200"), Device.parse("l40s")
TWO = (LocalCard(0, "NVIDIA L40S", L40S), LocalCard(1, "NVIDIA H200", H200))
OLD = (LocalCard(0, "Tesla T4", None),)


def test_the_drivers_tool_lists_the_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA L40S", "NVIDIA H200", "NVIDIA H200", "Tesla T4")
    cards = local_cards()
    assert [(card.number, card.name) for card in cards][1:3] == [(1, "NVIDIA H200"), (2, "NVIDIA H200")]
    assert [card.device for card in cards] == [L40S, H200, H200, None]
    found = [find_card(Device.parse(name)) for name in ("l40s", "h200", "h100", "model:sm_90")]
    assert [card and card.number for card in found] == [0, 1, None, None]
    assert describe_cards(cards[1:2] + cards[3:]) == "here: cuda:1 is h200, cuda:3 is 'Tesla T4', without a class"


@pytest.mark.parametrize(
    ("gib", "cores", "benches"),
    [(140, 16, 3), (140, 4, 1), (79, 16, 3), (48, 16, 2), (24, 64, 1), (180, 64, 3), (0, 16, 1)],
)
def test_workers_share_a_card_where_memory_and_cores_suffice(gib: int, cores: int, benches: int) -> None:
    assert benches_for(LocalCard(0, "NVIDIA H200", H200, gib * 2**30), cores) == benches


def test_a_divided_card_has_no_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA H200", mig="Enabled")
    assert [card.device for card in local_cards()] == [None]


def test_without_the_tool_the_drivers_files_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    for bus, name in (("0000:1b:00.0", "NVIDIA H200"), ("0000:0a:00.0", "NVIDIA A100-SXM4-80GB")):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(f"Model: \t\t {name}\nIRQ:   \t\t 42\nBus Location: \t {bus}\n")
    assert [str(card) for card in local_cards(tmp_path)] == ["cuda:0 is a100", "cuda:1 is h200"]
    assert local_cards(tmp_path / "0000:0a:00.0") == () and describe_cards(()) == NO_CARD


@pytest.mark.parametrize("name", ["h200", "a100", "rtx4090", "gb10", "model:sm_90", "model:gfx942", "recorded:h200"])
def test_cards_of_one_vendor_and_models_can_be_judged_on(name: str) -> None:
    require_judgeable(Device.parse(name), "devices")
    assert Device.parse(name).name == name


@pytest.mark.parametrize("name", ["recorded:mi300x", "mi300x", "model:sm_1", "x100_sm130"])
def test_what_nothing_can_judge_on_is_refused_with_what_can(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"model:<target>|known: ") as caught:
        require_judgeable(Device.parse(name), "devices")
    assert caught.value.field == "devices"


def test_names_of_cards_are_told_from_names_of_devices() -> None:
    assert [names_card(name) for name in ("cuda", "cuda:0", "cuda:", "h200", "model:sm_90")] == [True, True] + [
        False
    ] * 3
    assert [may_measure(name) for name in ("cuda:1", "h200", "model:sm_90", "recorded:h200")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_card_of_this_machine_is_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA L40S", "NVIDIA H200")
    assert [read_device(name, "--device") for name in ("cuda", "cuda:1", "h200")] == [L40S, H200, H200]
    assert card_named("cuda:1", TWO, "--device") == H200


@pytest.mark.parametrize(
    ("name", "cards", "reason"),
    [
        ("cuda", (), r"^cuda: no NVIDIA card on this machine, .*; without a card use --device model:sm_90$"),
        ("cuda:2", TWO, r"^cuda:2: there is no such card; here: cuda:0 is l40s, cuda:1 is h200$"),
        ("cuda", OLD, r"^cuda:0 is 'Tesla T4', without a class; .* compute capability 8\.0 or more"),
    ],
)
def test_a_card_that_is_not_here_says_what_is(name: str, cards: tuple[LocalCard, ...], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as caught:
        card_named(name, cards, "--device")
    assert caught.value.field == "--device"


def test_a_closed_service_measures_on_its_own_cards() -> None:
    chosen = choose_devices(["cuda", "cuda:1", "h200", "model:sm_90"], cards=TWO, served=(), closed=True)
    assert [device.name for device in chosen] == ["l40s", "h200", "model:sm_90"]
    with pytest.raises(InvalidInput, match=r"^h100: no worker has this card; here: cuda:0 is l40s, cuda:1 is h200$"):
        choose_devices(["h100"], cards=TWO, served=(), closed=True)
    assert choose_devices(["h100"], cards=(), served=("h100",), closed=True) == [Device.parse("h100")]


def test_a_service_that_others_may_join_waits_for_a_card() -> None:
    assert choose_devices(["h100"], cards=TWO, served=(), closed=False) == [Device.parse("h100")]
    assert choose_devices(["cuda"], cards=(), served=("h200", "model:sm_90"), closed=False) == [H200]
    with pytest.raises(InvalidInput, match="several cards; name one: h200, l40s"):
        choose_devices(["cuda"], cards=TWO[:1], served=("h200",), closed=False)


def test_a_service_without_cards_says_so() -> None:
    with pytest.raises(InvalidInput, match="no worker of this service has a card"):
        class_served("cuda", ("model:sm_90", "recorded:h200"), "devices")
    with pytest.raises(InvalidInput, match="did you mean rtx4090"):
        choose_devices(["rtx409"], cards=TWO, served=(), closed=True)


def test_auto_is_the_card_of_this_machine_or_a_model() -> None:
    assert choose_devices(["auto"], cards=TWO, served=(), closed=True) == [L40S]
    assert choose_devices(["auto"], cards=(), served=("h200",), closed=False) == [H200]
    for cards in ((), OLD):
        assert choose_devices(["auto"], cards=cards, served=(), closed=True) == [Device.parse("model:sm_90")]
