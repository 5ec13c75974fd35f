import ctypes
import struct
from collections.abc import Iterator

import pytest
import torch

from tests.workers.paper_driver import Paper, Result, on_paper
from tests.workers.runner.plans import COUNT, arena, bundle_of, kernel, machine_code, slots_of
from workers.driver import DriverError, LaunchParameters
from workers.protocol import Bundle, Fill, HostDescriptor, Kernel, Launch, Number, Pointer, View
from workers.runner.replay import LoadedKernels, ReplayedPlan, bits_of, pack
from workers.runner.slots import CannotRun


@pytest.fixture
def paper() -> Iterator[Paper]:
    with on_paper() as found:
        yield found


def load(bundle: Bundle, memory=None, **how: object) -> ReplayedPlan:
    return ReplayedPlan(LoadedKernels(bundle, machine_code(bundle, **how)), bundle.plans[0], memory or arena())


def test_a_launch_passes_its_slots_addresses(paper: Paper) -> None:
    bundle, memory = bundle_of(kernel(shared_bytes=1000)), arena()
    (slot,) = slots_of(bundle)
    load(bundle, memory).call(slot, 5)
    (launched,) = paper.launched
    x, y = (memory.pointer + slot.buffers[index] + 4 * index for index in (0, 1))
    assert launched.parameters == (x, y, 2**64 - 7, 0, 0)
    assert (launched.entry, launched.grid, launched.threads, launched.shared) == ("kernel", (3, 1, 1), 128, 1000)


def test_scratch_is_passed_where_a_kernel_takes_it(paper: Paper) -> None:
    bundle, memory = bundle_of(kernel(global_scratch_bytes=64, profile_scratch_bytes=8)), arena()
    (slot,) = slots_of(bundle)
    load(bundle, memory).call(slot, 5)
    assert paper.launched[0].parameters[3:] == tuple(memory.pointer + offset for offset in slot.scratch[0])


def test_steps_run_in_order(paper: Paper) -> None:
    bundle, memory = bundle_of(kernel(), steps="fill copy launch fill"), arena()
    (slot,) = slots_of(bundle)
    memory.tensor(slot.buffers[0], 4 * COUNT).view(torch.float32).fill_(3.0)
    seen = []
    paper.deeds["work"] = lambda _: seen.extend(
        float(memory.tensor(slot.buffers[index], 4).view(torch.float32)) for index in (1, 2)
    )
    paper.deeds["work"](None)
    load(bundle, memory).call(slot, 5)
    assert seen == [0.0, 0.0, 2.5, 3.0]


def test_a_bound_plan_runs_many_times(paper: Paper) -> None:
    bundle = bundle_of(kernel())
    plan = load(bundle)
    first, second = (plan.bind(slot) for slot in slots_of(bundle, 2))
    for run in (first, second, first):
        run(5)
    one, other, again = (launched.parameters for launched in paper.launched)
    assert one == again != other


def test_a_kernel_is_loaded_once(paper: Paper) -> None:
    bundle = bundle_of(kernel(), steps="launch launch")
    kernels = LoadedKernels(bundle, machine_code(bundle))
    for _ in range(2):
        ReplayedPlan(kernels, bundle.plans[0], arena())
    assert len(paper._functions) == 1
    kernels.close()
    kernels.close()
    assert paper.unloaded == 1


def test_clusters_are_launched_as_clusters(paper: Paper) -> None:
    bundle = bundle_of(kernel(num_ctas=2))
    load(bundle).call(slots_of(bundle)[0], 5)
    assert (paper.launched[0].grid, paper.launched[0].ctas) == ((6, 1, 1), 2)


@pytest.mark.parametrize(
    ("of", "facts", "why"),
    [
        (kernel(shared_bytes=232449), {}, "232449 bytes of shared memory"),
        (kernel(shared_bytes=232400), {"shared": 100}, "232500 bytes of shared memory"),
        (kernel(num_warps=8), {"threads": 255}, "256 threads; at most 255"),
    ],
)
def test_what_the_card_cannot_hold_is_refused(paper: Paper, of: Kernel, facts: dict[str, int], why: str) -> None:
    with pytest.raises(CannotRun, match=why):
        load(bundle_of(of), **facts)


def test_clusters_need_a_card_that_has_them(paper: Paper) -> None:
    paper.capability = (8, 9)
    with pytest.raises(CannotRun, match="does not have"):
        load(bundle_of(kernel(num_ctas=2)))


def test_clusters_may_be_too_large(paper: Paper) -> None:
    paper.clusters = 0
    with pytest.raises(CannotRun, match="clusters of 16"):
        load(bundle_of(kernel(num_ctas=16)))


@pytest.mark.parametrize(("grid", "ctas"), [((2**30, 1, 1), 4), ((1, 65536, 1), 1), ((1, 1, 65536), 1)])
def test_grids_have_limits(paper: Paper, grid: tuple[int, int, int], ctas: int) -> None:
    bundle = bundle_of(kernel(num_ctas=ctas))
    plan = bundle.plans[0]
    steps = tuple(step.model_copy(update={"grid": grid}) if step.op == "launch" else step for step in plan.steps)
    bundle = bundle.model_copy(update={"plans": (plan.model_copy(update={"steps": steps}),)})
    with pytest.raises(CannotRun, match="blocks"):
        load(bundle)


def test_a_fill_begins_where_an_element_can(paper: Paper) -> None:
    bundle = bundle_of(kernel(), steps="fill")
    view = View(buffer=1, offset_bytes=2, shape=(3,), strides=(1,), dtype="float32")
    plan = bundle.plans[0].model_copy(update={"steps": (Fill(target=view, value=0.0),)})
    with pytest.raises(CannotRun, match="byte 2, where no float32 can"):
        ReplayedPlan(LoadedKernels(bundle, {}), plan, arena())


def test_a_slot_is_checked_before_anything_runs(paper: Paper) -> None:
    bundle = bundle_of(kernel())
    (slot,) = slots_of(bundle)
    small = arena(slot.end // 256 * 256 - 256)
    with pytest.raises(CannotRun, match="an arena of"):
        load(bundle, small).call(slot, 5)
    with pytest.raises(ValueError, match="slot"):
        load(bundle).call(slot.model_copy(update={"buffers": (0, 0, 0)}), 5)
    assert not paper.launched


def test_code_for_another_card_is_the_drivers_to_refuse(paper: Paper) -> None:
    paper.failing["cuModuleLoadData"] = Result.CUDA_ERROR_NO_BINARY_FOR_GPU
    with pytest.raises(DriverError, match="NO_BINARY_FOR_GPU"):
        load(bundle_of(kernel()))


def packed(form: str, value: object) -> int:
    return int.from_bytes(struct.pack(form, value), "little")


@pytest.mark.parametrize(
    ("type", "value", "bits"),
    [
        ("i1", True, 1),
        ("i1", False, 0),
        ("i8", -1, packed("<b", -1)),
        ("i16", -300, packed("<h", -300)),
        ("i32", -(2**31), packed("<i", -(2**31))),
        ("i64", -(2**63), packed("<q", -(2**63))),
        ("u8", 255, 255),
        ("u16", 65535, 65535),
        ("u32", 2**32 - 1, 2**32 - 1),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("fp64", 1e300, packed("<d", 1e300)),
        ("fp32", 1e-6, packed("<f", 1e-6)),
        ("fp32", 3, packed("<f", 3.0)),
        ("fp32", 1e300, 0x7F800000),
        ("fp32", float("-inf"), 0xFF800000),
        ("fp16", 1.5, packed("<e", 1.5)),
        ("fp16", 65519.0, packed("<e", 65504.0)),
        ("fp16", -65520.0, 0xFC00),
        ("bf16", 1.0, 0x3F80),
        ("bf16", 1.00390625, 0x3F80),
        ("bf16", -2.0, 0xC000),
    ],
)
def test_numbers_have_the_bits_that_triton_passes(type: str, value: object, bits: int) -> None:
    number = Number.model_construct(type=type, value=value)
    size = {"i1": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8}.get(type) or int(type[1:]) // 8
    assert bits_of(number) & (2 ** (8 * size) - 1) == bits


@pytest.mark.parametrize("type", ["fp16", "bf16", "fp32", "fp64"])
def test_no_number_stays_none(type: str) -> None:
    exponent = {"fp16": 0x7C00, "bf16": 0x7F80, "fp32": 0x7F800000, "fp64": 0x7FF0000000000000}[type]
    bits = bits_of(Number(type=type, value=float("nan")))
    assert bits & exponent == exponent
    assert bits & ~exponent & (exponent - 1 | exponent >> 1)


def test_arguments_keep_their_order_and_scratch_follows() -> None:
    launch = Launch(
        kernel="0" * 64,
        grid=(1, 1, 1),
        arguments=(
            Pointer(buffer=1, offset_bytes=16, extent_bytes=4, dtype="float32"),
            Number(type="i32", value=-1),
            Pointer(buffer=0, offset_bytes=0, extent_bytes=4, dtype="float32"),
        ),
        function="f",
    )
    cells = pack(launch, [1000, 2000], (7, 0))
    assert cells == [2016, -1, 1000, 7, 0]
    assert LaunchParameters(cells).address


DESCRIBED = HostDescriptor(
    buffer=0,
    offset_bytes=32,
    dtype="float32",
    shape=(3, 64),
    strides=(80, 1),
    block=(4, 64),
    nan_fill=True,
    map={"element": 7, "box": (4, 32), "swizzle": 3},
)


def test_a_tensor_map_is_encoded_for_the_slots_address(paper: Paper) -> None:
    item = Launch(kernel="0" * 64, grid=(1, 1, 1), arguments=(DESCRIBED,), function="f")
    map_bits, *numbers, given, profile = pack(item, [4096], (7, 9))
    assert (numbers, given, profile) == ([3, 64, 80, 1], 7, 9)
    assert paper.maps == [(7, 4128, (64, 3), (320,), (32, 4), (1, 1), (0, 3, 2, 1))]
    parameters = LaunchParameters([5, map_bits, 6])
    addresses = (ctypes.c_uint64 * 3).from_address(parameters.address)
    assert addresses[1] % 64 == 0 and ctypes.string_at(addresses[1], 128) == map_bits
    assert [ctypes.c_uint64.from_address(at).value for at in addresses] == [5, 4128, 6]


def test_a_decomposed_descriptor_is_a_pointer_and_numbers(paper: Paper) -> None:
    plain = DESCRIBED.model_copy(update={"map": None, "tf32": False})
    item = Launch(kernel="0" * 64, grid=(1, 1, 1), arguments=(plain,), function="f")
    assert pack(item, [4096], (0, 0)) == [4128, 3, 64, 80, 1, 1, 0, 3, 64, 80, 1, 0, 0]
    assert paper.maps == []


def test_a_map_that_the_driver_refuses_is_the_candidates_fault(paper: Paper) -> None:
    paper.failing["cuTensorMapEncodeTiled"] = Result.CUDA_ERROR_INVALID_VALUE
    bundle = bundle_of(kernel())
    plan = bundle.plans[0]
    launched = plan.launches[0].model_copy(update={"arguments": (DESCRIBED,)})
    steps = tuple(launched if step.op == "launch" else step for step in plan.steps)
    bundle = bundle.model_copy(update={"plans": (plan.model_copy(update={"steps": steps}),)})
    with pytest.raises(CannotRun, match="takes no tensor map"):
        load(bundle).call(slots_of(bundle)[0], 5)
