from collections.abc import Iterator

import pytest
import torch

from tests.workers.paper_driver import Paper, Result, on_paper
from tests.workers.runner.plans import COUNT, arena, bundle_of, kernel, machine_code, slots_of
from workers.driver import DriverError
from workers.protocol import Bundle, Fill, Kernel, View
from workers.runner.errors import CannotRun
from workers.runner.replay import LoadedKernels, ReplayedPlan


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
        (kernel(num_warps=8), {"threads": 255}, "256 threads of the 255"),
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
