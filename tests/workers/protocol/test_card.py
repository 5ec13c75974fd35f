"""Classes of cards: one per product by the driver's name, with the compile target in it."""

import pytest
from pydantic import ValidationError

from tests.workers.sheets import A100_40, H100, RTX3080, RTX3080_12, RTX4090, X100
from workers.protocol import CardSheet, Device
from workers.protocol.card import (
    FAMILIES,
    KNOWN_CLASSES,
    SHARED_NAMES,
    class_of_card,
    plain_class,
    similar_classes,
    target_of_class,
)
from workers.targets import TARGETS

GIB = 2**30
CARDS = [
    ("NVIDIA A100-SXM4-80GB", "8.0", "a100"),
    ("NVIDIA A100-SXM4-40GB", "8.0", "a100sxm4_40gb"),
    ("NVIDIA A100-PCIE-40GB", "8.0", "a100pcie_40gb"),
    ("NVIDIA A100 80GB PCIe", "8.0", "a100_80gb_pcie"),
    ("NVIDIA A30", "8.0", "a30"),
    ("NVIDIA A10", "8.6", "a10"),
    ("NVIDIA A10G", "8.6", "a10g"),
    ("NVIDIA A40", "8.6", "a40"),
    ("NVIDIA RTX A6000", "8.6", "rtxa6000"),
    ("NVIDIA RTX A2000", "8.6", "rtxa2000"),
    ("NVIDIA RTX A2000 12GB", "8.6", "rtxa2000_12gb"),
    ("NVIDIA GeForce RTX 3090", "8.6", "rtx3090"),
    ("NVIDIA GeForce RTX 3090 Ti", "8.6", "rtx3090ti"),
    ("NVIDIA GeForce RTX 3080 Ti", "8.6", "rtx3080ti"),
    ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", "8.6", "rtx3080tilaptop"),
    ("NVIDIA GeForce RTX 3050 A Laptop GPU", "8.9", "rtx3050alaptop_sm89"),
    ("NVIDIA L4", "8.9", "l4"),
    ("NVIDIA L40", "8.9", "l40"),
    ("NVIDIA L40S", "8.9", "l40s"),
    ("NVIDIA GeForce RTX 4090", "8.9", "rtx4090"),
    ("NVIDIA GeForce RTX 4090 D", "8.9", "rtx4090d"),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9", "rtx4090laptop"),
    ("NVIDIA RTX 6000 Ada Generation", "8.9", "rtx6000ada"),
    ("NVIDIA RTX 4000 SFF Ada Generation", "8.9", "rtx4000sffada"),
    ("NVIDIA RTX 3000 Ada Generation Laptop GPU", "8.9", "rtx3000adalaptop"),
    ("NVIDIA H100 80GB HBM3", "9.0", "h100"),
    ("NVIDIA H100 PCIe", "9.0", "h100pcie"),
    ("NVIDIA H100 NVL", "9.0", "h100nvl"),
    ("NVIDIA H200", "9.0", "h200"),
    ("NVIDIA H200 NVL", "9.0", "h200nvl"),
    ("NVIDIA H20", "9.0", "h20"),
    ("NVIDIA H20-3e", "9.0", "h20_3e"),
    ("NVIDIA GH200 480GB", "9.0", "gh200_480gb"),
    ("NVIDIA B200", "10.0", "b200"),
    ("NVIDIA GB200", "10.0", "gb200"),
    ("NVIDIA GeForce RTX 5090", "12.0", "rtx5090"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", "rtxpro6000blackwellserver"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12.0", "rtxpro6000blackwellworkstation"),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "12.0", "rtxpro6000blackwellmaxqworkstation"),
    ("NVIDIA GB10", "12.1", "gb10"),
    ("NVIDIA X100", "13.0", "x100_sm130"),
]
NONE = [
    ("Tesla T4", "7.5"),
    ("Quadro RTX 4000", "7.5"),
    ("Tesla V100-SXM2-16GB", "7.0"),
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0"),
    ("NVIDIA H200 MIG 1g.18gb", "9.0"),
    ("GRID A100-10C", "8.0"),
    ("NVIDIA A10-24Q", "8.6"),
    ("NVIDIA Graphics Device", "9.0"),
    ("", "9.0"),
]


def capability_of(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


@pytest.mark.parametrize(("card", "capability", "name"), CARDS, ids=[name for _, _, name in CARDS])
def test_a_card_has_a_class_by_its_name(card: str, capability: str, name: str) -> None:
    assert class_of_card(card, capability_of(capability), 24 * GIB) == name
    device = Device.parse(name)
    assert (device.name, device.target) == (name, f"sm_{capability.replace('.', '')}")


def test_two_products_never_share_a_class() -> None:
    names = [class_of_card(card, capability_of(capability), 24 * GIB) for card, capability, _ in CARDS]
    assert len(set(names)) == len(names) == 41


@pytest.mark.parametrize(("card", "capability"), NONE)
def test_slices_old_cards_and_nameless_ones_have_no_class(card: str, capability: str) -> None:
    assert class_of_card(card, capability_of(capability), 24 * GIB) is None


@pytest.mark.parametrize(
    ("card", "memory_gib", "name"),
    [
        ("NVIDIA GeForce RTX 3060", 11.76, "rtx3060_12gb"),
        ("NVIDIA GeForce RTX 3060", 7.79, "rtx3060_8gb"),
        ("NVIDIA GeForce RTX 3050", 5.8, "rtx3050_6gb"),
        ("Orin", 61.37, "orin_64gb"),
        ("Orin (nvgpu)", 61.37, "orin_64gb"),
    ],
)
def test_names_that_products_share_are_told_apart_by_memory(card: str, memory_gib: float, name: str) -> None:
    assert class_of_card(card, None, int(memory_gib * GIB)) == name
    assert class_of_card(card) is None, "which product it is cannot be told"


def test_without_a_capability_the_family_tells_the_target() -> None:
    assert class_of_card("NVIDIA GeForce RTX 4090") == "rtx4090"
    assert class_of_card("NVIDIA X100") is None


def test_a_sheet_knows_its_class() -> None:
    cards = (A100_40, H100, RTX3080, RTX3080_12, RTX4090, X100)
    assert [card.device_class for card in cards] == [
        "a100sxm4_40gb",
        "h100",
        "rtx3080_10gb",
        "rtx3080_12gb",
        "rtx4090",
        "x100_sm130",
    ]
    assert CardSheet.model_validate_json(H100.model_dump_json()) == H100


@pytest.mark.parametrize("changes", [{"sms": 0}, {"clock_mhz": -1}, {"capability": "9"}, {"l2_bytes": 2**61}])
def test_a_sheet_holds_figures_that_can_be(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CardSheet.model_validate({**H100.model_dump(), **changes})


def test_a_name_says_its_target_or_nothing() -> None:
    assert [target_of_class(name) for name in ("a100", "a1000", "l40s", "x100", "x100_sm130", "mi300x")] == [
        "sm_80",
        None,
        "sm_89",
        None,
        "sm_130",
        "gfx942",
    ]
    assert plain_class("h100_80gb_hbm3_sm90") == "h100"
    assert plain_class("a100_sm90") == "a100_sm90"


def test_proposed_classes_are_classes() -> None:
    assert {Device.parse(name).name for name in KNOWN_CLASSES} == set(KNOWN_CLASSES)
    assert similar_classes("RTX 4090")[0] == "rtx4090"
    assert all(target_of_class(name) for name in SHARED_NAMES)


def test_every_family_compiles_for_a_target_with_a_sheet() -> None:
    assert FAMILIES.keys() <= TARGETS.keys()
