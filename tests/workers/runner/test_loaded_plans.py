from base64 import b64encode
from collections.abc import Iterator

import pytest

from tests.workers.paper_driver import Paper, on_paper
from tests.workers.runner.plans import OPERATOR, arena, bundle_of, kernel, machine_code
from workers.commands import LoadBundle, PairSide
from workers.errors import BadMessage
from workers.protocol import Bundle
from workers.runner.loaded_plans import LoadedPlans


@pytest.fixture
def paper() -> Iterator[Paper]:
    with on_paper() as found:
        yield found


def order(side: PairSide, bundle: Bundle) -> LoadBundle:
    code = {digest: b64encode(each).decode() for digest, each in machine_code(bundle).items()}
    return LoadBundle(side=side, operator=OPERATOR, bundle=bundle, machine_code=code)


def test_kernels_are_loaded_when_a_plan_is_asked_for(paper: Paper) -> None:
    bundle, loaded_plans = bundle_of(kernel()), LoadedPlans(arena())
    loaded_plans.load(order(PairSide.PACER, bundle))
    assert not paper._functions
    loaded_plan = loaded_plans.loaded_plan(PairSide.PACER, 0)
    assert (loaded_plan.operator, loaded_plan.plan) == (OPERATOR, bundle.plans[0])
    assert [spec.bytes for spec in loaded_plan.contents] == [1200]
    assert loaded_plans.loaded_plan(PairSide.PACER, 0) is loaded_plan
    assert len(paper._functions) == 1


@pytest.mark.parametrize(("side", "index"), [(PairSide.CANDIDATE, 0), (PairSide.PACER, 1), (PairSide.PACER, -1)])
def test_there_are_no_other_plans(paper: Paper, side: PairSide, index: int) -> None:
    loaded_plans = LoadedPlans(arena())
    loaded_plans.load(order(PairSide.PACER, bundle_of(kernel())))
    with pytest.raises(BadMessage, match=f"no plan {index} of the {side}"):
        loaded_plans.loaded_plan(side, index)


def test_a_plan_takes_the_operators_inputs(paper: Paper) -> None:
    loaded_plans = LoadedPlans(arena())
    bundle = bundle_of(kernel())
    buffers = (bundle.plans[0].buffers[0].model_copy(update={"bytes": 1204}), *bundle.plans[0].buffers[1:])
    plan = bundle.plans[0].model_copy(update={"buffers": buffers})
    loaded_plans.load(order(PairSide.PACER, bundle.model_copy(update={"plans": (plan,)})))
    with pytest.raises(BadMessage, match="not for the inputs of scale"):
        loaded_plans.loaded_plan(PairSide.PACER, 0)


def test_a_side_has_one_bundle(paper: Paper) -> None:
    loaded_plans = LoadedPlans(arena())
    for side in PairSide:
        loaded_plans.load(order(side, bundle_of(kernel())))
    former, other = (loaded_plans.loaded_plan(side, 0) for side in PairSide)
    loaded_plans.load(order(PairSide.CANDIDATE, bundle_of(kernel(num_warps=8))))
    assert paper.unloaded == 1
    assert loaded_plans.loaded_plan(PairSide.CANDIDATE, 0) is not former
    assert loaded_plans.loaded_plan(PairSide.PACER, 0) is other


def test_nothing_is_left_after_clearing(paper: Paper) -> None:
    loaded_plans = LoadedPlans(arena())
    for side in PairSide:
        loaded_plans.load(order(side, bundle_of(kernel())))
        loaded_plans.loaded_plan(side, 0)
    loaded_plans.clear()
    assert paper.unloaded == 2
    with pytest.raises(BadMessage, match="no plan"):
        loaded_plans.loaded_plan(PairSide.PACER, 0)
