import pytest
from pydantic import TypeAdapter, ValidationError

from workers.protocol import CardShare, Device, device_of_card


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("h200", "cuda", "sm_90"),
        ("b200", "cuda", "sm_100"),
        ("rtx4090", "cuda", "sm_89"),
        ("x100_sm130", "cuda", "sm_130"),
        ("model:sm_80", "model", "sm_80"),
        ("model:gfx942", "model", "gfx942"),
        ("recorded:h200", "recorded", "sm_90"),
    ],
)
def test_a_device_is_its_name(name: str, kind: str, target: str) -> None:
    device = Device.parse(name)
    assert (device.name, device.kind, device.target) == (name, kind, target)
    adapter = TypeAdapter(Device)
    assert adapter.dump_json(device) == f'"{name}"'.encode()
    assert adapter.validate_json(f'"{name}"') == device


@pytest.mark.parametrize(
    "name", ["", "H200", "cuda:0", "model:", "model:sm 90", "h200\n", "recorded:sm_90", "x:y:z", "v100"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"no device|no class"):
        Device.parse(name)


def test_a_device_is_nothing_but_a_name_or_its_parts() -> None:
    for value in (3, None, ["h200"], {"kind": "cuda", "subject": "h200", "more": 1}):
        with pytest.raises(ValidationError):
            Device.model_validate(value)


@pytest.mark.parametrize(
    ("name", "seat"), [("cuda:0", CardShare()), ("cuda:12", CardShare(12)), ("cuda:3/4", CardShare(3, 4))]
)
def test_a_seat_is_a_card_and_how_many_share_it(name: str, seat: CardShare) -> None:
    assert CardShare.parse(name) == seat and str(seat) == name


@pytest.mark.parametrize(
    "name",
    ["cuda", "cuda:", "cuda:-1", "cuda:x", "0", "hip:0", "cuda:0/0", "cuda:0/", "cuda:0/1/1", "cuda:0/100", "cuda:0\n"],
)
def test_other_names_of_seats_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="the first one is cuda:0"):
        CardShare.parse(name)


def test_only_a_recording_needs_no_compiler() -> None:
    places = [Device.parse(name).traced_at for name in ("h200", "model:sm_90", "recorded:h200")]
    assert places == ["sm_90", "sm_90", "recorded:h200"]


def test_only_cards_measure() -> None:
    measuring = [name for name in ("h200", "model:sm_90", "recorded:h200") if Device.parse(name).measures]
    assert measuring == ["h200"]


@pytest.mark.parametrize(
    ("card", "name"),
    [("NVIDIA H200", "h200"), ("NVIDIA GeForce RTX 4090", "rtx4090"), ("NVIDIA H200 MIG 1g.18gb", None), ("", None)],
)
def test_a_cards_device_is_its_class(card: str, name: str | None) -> None:
    assert device_of_card(card) == (None if name is None else Device.parse(name))


def test_a_class_has_one_name() -> None:
    names = ("rtx4090_sm89", "h100_80gb_hbm3", "recorded:h200_sm90", "x100_sm130", "rtx3050alaptop_sm89")
    plain = [Device.parse(name).name for name in names]
    assert plain == ["rtx4090", "h100", "recorded:h200", "x100_sm130", "rtx3050alaptop_sm89"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("rtx409", "did you mean rtx4090"),
        ("h10", "did you mean h100"),
        ("v100", "compute capability 8.0 or more"),
        ("zzz", "classes are called like h200, a10 or rtx4090"),
        ("rtx3080", "several products are called rtx3080; add the memory size, as in rtx3080_10gb"),
    ],
)
def test_a_name_that_is_no_class_gets_advice(name: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        Device.parse(name)
