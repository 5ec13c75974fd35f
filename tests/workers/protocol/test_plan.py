import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workers.protocol.documents import BUNDLE, CUBINS, KERNEL, LAUNCH, OTHER, PLAN, POINTER, VIEW, bundle, changed
from workers.protocol import (
    DTYPE_BYTES,
    Bundle,
    Fill,
    HostDescriptor,
    Kernel,
    Launch,
    Number,
    Plan,
    Pointer,
    Shape,
    View,
)
from workers.protocol.plan import gathered, spread

LARGE = 10**30
SPOILED = {
    "a view beyond its buffer": (("outputs", 0, "offset_bytes"), 4, "beyond its end"),
    "a view of a buffer that is not there": (("outputs", 0, "buffer"), 2, "no such tensor"),
    "a stride too many": (("outputs", 0, "strides"), [16, 1, 1], "no such tensor"),
    "a stride that reaches too far": (("outputs", 0, "strides"), [16, 2], "beyond its end"),
    "a shape that reaches too far": (("outputs", 0, "shape"), [9, 16], "beyond its end"),
    "a negative stride": (("outputs", 0, "strides"), [-16, 1], "greater than or equal"),
    "a negative offset": (("outputs", 0, "offset_bytes"), -4, "greater than or equal"),
    "a huge stride": (("outputs", 0, "strides"), [LARGE, 1], "less than or equal"),
    "a huge shape": (("outputs", 0, "shape"), [2**40, 2**40], "beyond its end"),
    "an unknown dtype": (("outputs", 0, "dtype"), "complex64", "Input should be"),
    "too many dimensions": (("outputs", 0, "shape"), [1] * 9, "at most 8"),
    "too many outputs": (("outputs",), [VIEW] * 17, "at most 16"),
    "a pointer beyond its buffer": (("steps", 2, "arguments", 0, "offset_bytes"), 1, "leaves buffer 0"),
    "a pointer that is longer than its buffer": (("steps", 2, "arguments", 0, "extent_bytes"), 513, "leaves buffer 0"),
    "a pointer into a buffer that is not there": (("steps", 2, "arguments", 0, "buffer"), 9, "leaves buffer 9"),
    "a pointer with a huge offset": (("steps", 2, "arguments", 0, "offset_bytes"), LARGE, "less than or equal"),
    "a bare address": (("steps", 2, "arguments", 0), 140_000_000_000, "should be an object"),
    "an empty grid": (("steps", 2, "grid"), [0, 1, 1], "greater than or equal"),
    "a grid of two sizes": (("steps", 2, "grid"), [8, 1], "required"),
    "a huge grid": (("steps", 2, "grid"), [2**31, 1, 1], "less than or equal"),
    "a kernel without a proper name": (("steps", 2, "kernel"), KERNEL.digest + "\n", "pattern"),
    "a number of another type": (("steps", 2, "arguments", 2, "value"), 1.5, "does not fit"),
    "a number that is too large": (("steps", 2, "arguments", 2, "value"), 2**31, "does not fit"),
    "a number that is no number": (("steps", 2, "arguments", 2, "value"), "sixteen", "should be a valid"),
    "a step of another kind": (("steps", 0, "op"), "free", "expected tags"),
    "a field that is not in the protocol": (("steps", 0, "stream"), 1, "not permitted"),
    "too many steps": (("steps",), [LAUNCH] * 4097, "at most 4096"),
    "a gap in the buffers": (("buffers", 1, "id"), 2, "without gaps"),
    "a buffer twice": (("buffers", 1, "id"), 0, "without gaps"),
    "a negative buffer": (("buffers", 1, "bytes"), -1, "greater than or equal"),
    "a huge buffer": (("buffers", 1, "bytes"), 2**36, "less than or equal"),
    "an input in the wrong place": (("buffers", 1, "input"), 3, "must come first"),
    "an input twice": (("buffers", 1, "input"), 0, "must come first"),
    "an input after other memory": (
        ("buffers",),
        [{"id": 0, "bytes": 512}, {"id": 1, "bytes": 512, "input": 0}],
        "must come first",
    ),
    "memory that is never allocated": (("steps",), [], "never allocated"),
    "memory used before it is allocated": (("steps",), list(reversed(PLAN["steps"])), "before it is allocated"),  # type: ignore[call-overload]
    "memory allocated twice": (("steps", 1), {"op": "allocate", "buffer": 1}, "allocated twice"),
    "an input allocated": (("steps", 1), {"op": "allocate", "buffer": 0}, "is an input"),
    "a buffer allocated that is not there": (("steps", 1), {"op": "allocate", "buffer": 7}, "does not exist"),
    "a fill that overlaps itself": (("steps", 1, "target", "strides"), [0, 1], "share memory"),
    "a fill that the dtype cannot hold": (("steps", 1, "value"), LARGE, "does not fit"),
    "a copy between shapes": (
        ("steps", 1),
        {"op": "copy", "source": {**VIEW, "buffer": 0, "shape": [16, 8], "strides": [8, 1]}, "target": VIEW},
        "a copy goes",
    ),
    "a shape of no size": (("shape", "dims", "M"), -1, "greater than or equal"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_hostile_plans_are_refused(name: str) -> None:
    path, value, reason = SPOILED[name]
    with pytest.raises(ValidationError, match=reason):
        Plan.model_validate_json(json.dumps(changed(PLAN, path, value)))


def test_buffers_together_have_a_bound() -> None:
    buffers = [{"id": index, "bytes": 2**35} for index in range(3)]
    with pytest.raises(ValidationError, match="more than"):
        Plan.model_validate({**PLAN, "buffers": buffers, "steps": [], "outputs": []})


def test_an_honest_plan_is_taken() -> None:
    plan = Plan.model_validate(PLAN)
    assert [launch.function for launch in plan.launches] == ["double"]
    assert plan.outputs[0].end_bytes == 512


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("plans", 0, "steps", 2, "kernel"), "0" * 64, "does not hold"),
        (("plans",), [], "at least 1"),
        (("plans",), [PLAN] * 257, "at most 256"),
        (("kernels",), {"0" * 64: KERNEL.model_dump()}, "not what its name says"),
        (("kernels", KERNEL.digest, "assembly"), "other text", "not what its name says"),
        (("kernels", KERNEL.digest, "num_warps"), 0, "greater than or equal"),
        (("kernels", KERNEL.digest, "num_warps"), 33, "less than or equal"),
        (("kernels", KERNEL.digest, "global_scratch_bytes"), 2**21, "less than or equal"),
        (("plans", 0, "steps", 2, "grid"), [2**31 - 1, 2**31 - 1, 1], "bytes of scratch"),
        (("operator",), "A" * 64, "pattern"),
        (("cubins",), {"x": "0" * 64}, "pattern"),
    ],
)
def test_hostile_bundles_are_refused(path: tuple[str | int, ...], value: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        bundle(*path, value=value)


def test_assembly_has_a_longest_length() -> None:
    with pytest.raises(ValidationError, match="at most"):
        Kernel(language="ptx", assembly=" " * (4 * 2**20 + 1), target="sm_90", num_warps=4)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists), st.data())
def test_any_document_is_a_plan_or_a_validation_error(value: object, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path, _, _ in SPOILED.values()]))
    try:
        plan = Plan.model_validate_json(json.dumps(changed(PLAN, path, value)))
    except ValidationError:
        return
    assert Plan.model_validate_json(plan.model_dump_json()).shape == plan.shape


def test_deep_and_long_documents_end_in_a_validation_error() -> None:
    for text in ("[" * 100_000, '{"buffers":' * 100_000, '{"shape":' + "9" * 100_000 + "}"):
        with pytest.raises(ValidationError):
            Plan.model_validate_json(text)


SIZES = st.integers(0, 64)


@st.composite
def views(draw: st.DrawFn) -> View:
    rank = draw(st.integers(0, 4))
    return View(
        buffer=0,
        offset_bytes=draw(st.integers(0, 1000)),
        shape=tuple(draw(st.integers(0, 5)) for _ in range(rank)),
        strides=tuple(draw(st.integers(0, 8)) for _ in range(rank)),
        dtype=draw(st.sampled_from(sorted(DTYPE_BYTES))),  # type: ignore[arg-type]
    )


def places(view: View) -> list[int]:
    """Element offsets of a view, one by one."""
    found = [0]
    for size, stride in zip(view.shape, view.strides, strict=True):
        found = [place + index * stride for place in found for index in range(size)]
    return found


@given(views())
def test_the_end_of_a_view_is_that_of_its_last_element(view: View) -> None:
    ends = [(place + 1) * DTYPE_BYTES[view.dtype] for place in places(view)]
    assert view.end_bytes == view.offset_bytes + max(ends, default=0)
    assert view.elements == len(ends)


@given(views())
def test_a_view_that_overlaps_itself_is_always_noticed(view: View) -> None:
    found = places(view)
    if len(set(found)) < len(found):
        assert view.overlaps_itself


@given(st.permutations(range(3)), st.lists(st.integers(1, 5), min_size=3, max_size=3))
def test_permuted_and_sliced_tensors_do_not_overlap(order: list[int], sizes: list[int]) -> None:
    padded, strides = 1, []
    for size in reversed(sizes):
        strides.insert(0, padded)
        padded *= size + 1
    view = View(
        buffer=0,
        shape=tuple(sizes[axis] for axis in order),
        strides=tuple(strides[axis] for axis in order),
        dtype="int8",
    )
    assert not view.overlaps_itself


NUMBERS = st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.floats()


@given(NUMBERS)
def test_a_fills_value_survives_json_with_its_type(value: float) -> None:
    fill = Fill(target=View.model_validate({**VIEW, "dtype": "float64"}), value=value)
    back = Fill.model_validate_json(fill.model_dump_json()).value
    assert type(back) is type(value)
    assert repr(back) == repr(value)


@pytest.mark.parametrize(
    ("dtype", "most"),
    [("float16", 65504), ("bfloat16", 3.3895313892515355e38), ("float32", 3.4028234663852886e38), ("int8", 127)],
)
def test_a_fills_value_fits_its_dtype(dtype: str, most: float) -> None:
    def fill(value: float) -> Fill:
        return Fill(target=View.model_validate({**VIEW, "dtype": dtype, "shape": (1,), "strides": (1,)}), value=value)

    assert fill(most).value == most
    for value in (2 * most, -3 * most, 10**400):
        with pytest.raises(ValidationError, match="does not fit"):
            fill(value)
    if dtype != "int8":
        assert fill(float("inf")).value == float("inf") and fill(-most).value == -most
        assert torch.empty(1, dtype=getattr(torch, dtype)).fill_(most).isfinite()


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.none() | NUMBERS | st.sampled_from(["", "relu", "ieee"])))
def test_constants_survive_json_with_their_types(constants: dict[str, Any]) -> None:
    launch = Launch.model_validate({**LAUNCH, "constants": constants})
    back = Launch.model_validate_json(launch.model_dump_json()).constants
    assert {name: (type(value), repr(value)) for name, value in back.items()} == {
        name: (type(value), repr(value)) for name, value in constants.items()
    }


def test_true_stays_true_and_one_stays_one() -> None:
    numbers = [Number(type="i1", value=True), Number(type="i32", value=1), Number(type="fp32", value=1.0)]
    back = [Number.model_validate_json(number.model_dump_json()).value for number in numbers]
    assert [type(value) for value in back] == [bool, int, float]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("i1", 2),
        ("u8", -1),
        ("u8", 256),
        ("i8", 128),
        ("i64", 2**63),
        ("u64", -1),
        ("i32", 1.0),
        ("i32", math.inf),
        ("fp32", 10**40),
    ],
)
def test_a_number_must_fit_its_type(kind: str, value: float) -> None:
    with pytest.raises(ValidationError, match="does not fit"):
        Number.model_validate({"type": kind, "value": value})


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("float32", math.inf, True),
        ("float16", math.nan, True),
        ("bfloat16", 1e30, True),
        ("int32", 2**31 - 1, True),
        ("int32", 2**31, False),
        ("int32", math.nan, False),
        ("int64", 1.0, True),
        ("int8", -129, False),
        ("uint8", -1, False),
        ("bool", True, True),
        ("bool", 2, False),
        ("float32", 10**30, False),
    ],
)
def test_a_fill_must_fit_its_dtype(dtype: str, value: float, fits: bool) -> None:
    document = {"target": {**VIEW, "dtype": dtype}, "value": value}
    if fits:
        assert Fill.model_validate(document).value is value
    else:
        with pytest.raises(ValidationError, match="does not fit"):
            Fill.model_validate(document)


def test_a_bundle_survives_json() -> None:
    honest = bundle()
    back = Bundle.model_validate_json(honest.model_dump_json())
    assert back == honest
    assert back.identity == honest.identity


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("plans", 0, "steps", 2, "function"), "twice"),
        (("plans", 0, "steps", 2, "line"), 99),
        (("plans", 0, "steps", 2, "line"), None),
        (("plans", 0, "steps", 2, "parameters"), ["a", "b", "c"]),
        (("plans", 0, "steps", 2, "constants"), {"block": 16}),
        (("configuration",), {}),
    ],
)
def test_names_and_lines_are_no_part_of_the_identity(path: tuple[str | int, ...], value: object) -> None:
    assert bundle(*path, value=value).identity == bundle().identity


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("target",), "sm_100"),
        (("operator",), "1" * 64),
        (("plans", 0, "shape", "dims", "M"), 9),
        (("plans", 0, "steps", 2, "grid"), [1, 8, 1]),
        (("plans", 0, "steps", 2, "kernel"), OTHER.digest),
        (("plans", 0, "steps", 2, "arguments", 2, "value"), 17),
        (("plans", 0, "steps", 2, "arguments", 2, "type"), "i64"),
        (("plans", 0, "steps", 2, "arguments", 0), {**POINTER, "offset_bytes": 16, "extent_bytes": 496}),
        (("plans", 0, "steps", 1, "value"), -0.0),
        (("plans", 0, "steps", 1, "value"), math.inf),
        (("plans", 0, "steps", 1, "target", "dtype"), "int32"),
        (("plans", 0, "steps"), PLAN["steps"][:1] + PLAN["steps"][2:]),  # type: ignore[index]
        (("plans", 0, "outputs", 0, "shape"), [4, 16]),
        (("plans", 0, "outputs", 0, "dtype"), "int32"),
        (("plans", 0, "outputs"), [VIEW, VIEW]),
        (("plans", 0, "buffers", 1, "bytes"), 1024),
        (("plans",), [PLAN, PLAN]),
        (("cubins", KERNEL.digest), "2" * 64),
    ],
)
def test_whatever_runs_differently_has_another_identity(path: tuple[str | int, ...], value: object) -> None:
    assert bundle(*path, value=value).identity != bundle().identity


def with_kernel(**changes: object) -> Bundle:
    """The honest bundle with its kernel changed but the machine code kept."""
    kernel = KERNEL.model_copy(update=changes)
    launch = {**LAUNCH, "kernel": kernel.digest}
    document = changed(BUNDLE, ("plans", 0, "steps", 2), launch)
    document["kernels"] = {kernel.digest: kernel.model_dump()}
    document["cubins"] = {kernel.digest: CUBINS[KERNEL.digest]}
    return Bundle.model_validate(document)


@pytest.mark.parametrize(
    "name", ["num_warps", "num_ctas", "shared_bytes", "global_scratch_bytes", "profile_scratch_bytes"]
)
def test_how_a_kernel_is_launched_is_part_of_the_identity(name: str) -> None:
    assert with_kernel(**{name: 8}).identity != with_kernel().identity


@pytest.mark.parametrize(("name", "value"), [("num_stages", 5), ("max_registers", 64), ("assembly", "// same code")])
def test_what_the_machine_code_already_answers_is_not(name: str, value: object) -> None:
    assert with_kernel(**{name: value}).identity == with_kernel().identity


def test_a_bundle_that_is_not_assembled_has_no_identity() -> None:
    with pytest.raises(ValueError, match="2 kernels are not assembled"):
        _ = bundle("cubins", value={}).identity


def test_a_reduced_bundle_has_the_benchmark_plans_and_what_they_launch() -> None:
    boundary = changed(PLAN, ("shape", "role"), "boundary")
    launch = {**LAUNCH, "kernel": OTHER.digest}
    whole = bundle("plans", value=[changed(boundary, ("steps", 2), launch), PLAN])
    reduced = whole.reduced()
    assert reduced.plans == whole.plans[1:]
    assert set(reduced.kernels) == set(reduced.cubins) == {KERNEL.digest} and len(whole.kernels) == 2
    assert reduced.reduced() == reduced and reduced.identity != whole.identity
    with pytest.raises(ValidationError, match="at least 1"):
        bundle("plans", value=[boundary]).reduced()


@given(st.integers(0, 2**35), st.integers(0, 2**35))
def test_a_pointer_keeps_its_bounds(offset: int, extent: int) -> None:
    item = Pointer(buffer=0, offset_bytes=offset, extent_bytes=extent, dtype="int8")
    document = changed(PLAN, ("steps", 2, "arguments", 0), item.model_dump())
    if offset + extent <= 512:
        assert Plan.model_validate(document).launches[0].arguments[0] == item
    else:
        with pytest.raises(ValidationError, match="leaves buffer"):
            Plan.model_validate(document)


def descriptor(**how: object) -> HostDescriptor:
    given = {"buffer": 0, "offset_bytes": 0, "dtype": "bfloat16", "shape": (64, 128), "strides": (128, 1)}
    box = {"element": 9, "box": (64, 64), "swizzle": 3}
    return HostDescriptor.model_validate({**given, "block": (64, 128), "map": box, **how})


@pytest.mark.parametrize(
    "how",
    [
        {"strides": (128, 2)},
        {"strides": (127, 1)},
        {"offset_bytes": 8},
        {"shape": (64,)},
        {"shape": (0, 128)},
        {"strides": (2**39, 1)},
        {"map": {"element": 9, "box": (64, 128), "swizzle": 3}},
        {"map": {"element": 9, "box": (64, 257)}},
        {"map": {"element": 9, "box": (64, 4)}},
        {"map": {"element": 7, "box": (64, 64)}},
        {"map": {"element": 1, "box": (64, 64)}},
        {"map": {"element": 9, "box": (64,)}},
        {"dtype": "int16", "nan_fill": True, "map": {"element": 1, "box": (64, 64)}},
    ],
)
def test_descriptors_that_no_card_takes_are_refused(how: dict[str, object]) -> None:
    assert descriptor().extent_bytes == 64 * 128 * 2
    with pytest.raises(ValidationError):
        descriptor(**how)


@pytest.mark.parametrize("buffer", [{"id": 0, "bytes": 64 * 128 * 2 - 2, "input": 0}, {"id": 0, "bytes": 64 * 128 * 2}])
def test_descriptors_stay_in_memory_that_exists(buffer: dict[str, int]) -> None:
    launch = Launch(kernel="0" * 64, grid=(1, 1, 1), arguments=(descriptor(),), function="f")
    good = {"id": 0, "bytes": 64 * 128 * 2, "input": 0}
    assert Plan(shape=Shape(dims={"M": 1}), buffers=(good,), steps=(launch,), outputs=()).launches == (launch,)
    with pytest.raises(ValidationError):
        Plan(shape=Shape(dims={"M": 1}), buffers=(buffer,), steps=(launch,), outputs=())


def test_a_descriptor_is_several_parameters() -> None:
    mapped, plain = descriptor(), descriptor(map=None, tf32=False)
    assert [item.kind if isinstance(item, Number | Pointer) else "map" for item in mapped.parameters()] == [
        "map", *["number"] * 4
    ]  # fmt: skip
    kinds = ["pointer" if isinstance(item, Pointer) else getattr(item, "type", "") for item in plain.parameters()]
    assert kinds == ["pointer", *["i64"] * 4, "i1", "i1", "i32", "i32", "i64", "i64"]


def test_tuples_are_gathered_from_the_parts_that_they_are_spread_to():
    given = {"x": 1, "pair": (2, ((3,), "four")), "long": tuple(range(12))}
    parts = {name: part for parameter, value in given.items() for name, part in spread(parameter, value)}
    assert list(parts)[:4] == ["x", "pair.0", "pair.1.0.0", "pair.1.1"] and parts["long.11"] == 11
    assert gathered(dict(reversed(parts.items()))) == given


@pytest.mark.parametrize("parts", [{"x": 1, "x.0": 2}, {"x.1": 2}, {"x.0": 1, "x.00": 2}, {"x.0": 1, "x.0.0": 2}])
def test_parts_that_are_no_tuple_are_refused(parts):
    with pytest.raises(ValueError, match=r"the parts of '[x0]' are no tuple"):
        gathered(parts)
