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
    bundle, roster = bundle_of(kernel()), LoadedPlans(arena())
    roster.load(order(PairSide.PACER, bundle))
    assert not paper._functions
    entrant = roster.entrant(PairSide.PACER, 0)
    assert (entrant.operator, entrant.plan) == (OPERATOR, bundle.plans[0])
    assert [spec.bytes for spec in entrant.contents] == [1200]
    assert roster.entrant(PairSide.PACER, 0) is entrant
    assert len(paper._functions) == 1


@pytest.mark.parametrize(("side", "index"), [(PairSide.CANDIDATE, 0), (PairSide.PACER, 1), (PairSide.PACER, -1)])
def test_there_are_no_other_plans(paper: Paper, side: PairSide, index: int) -> None:
    roster = LoadedPlans(arena())
    roster.load(order(PairSide.PACER, bundle_of(kernel())))
    with pytest.raises(BadMessage, match=f"no plan {index} of the {side}"):
        roster.entrant(side, index)


def test_a_plan_takes_the_operators_inputs(paper: Paper) -> None:
    roster = LoadedPlans(arena())
    bundle = bundle_of(kernel())
    buffers = (bundle.plans[0].buffers[0].model_copy(update={"bytes": 1204}), *bundle.plans[0].buffers[1:])
    plan = bundle.plans[0].model_copy(update={"buffers": buffers})
    roster.load(order(PairSide.PACER, bundle.model_copy(update={"plans": (plan,)})))
    with pytest.raises(BadMessage, match="not for the inputs of scale"):
        roster.entrant(PairSide.PACER, 0)


def test_a_side_has_one_bundle(paper: Paper) -> None:
    roster = LoadedPlans(arena())
    for side in PairSide:
        roster.load(order(side, bundle_of(kernel())))
    former, other = (roster.entrant(side, 0) for side in PairSide)
    roster.load(order(PairSide.CANDIDATE, bundle_of(kernel(num_warps=8))))
    assert paper.unloaded == 1
    assert roster.entrant(PairSide.CANDIDATE, 0) is not former
    assert roster.entrant(PairSide.PACER, 0) is other


def test_nothing_is_left_after_clearing(paper: Paper) -> None:
    roster = LoadedPlans(arena())
    for side in PairSide:
        roster.load(order(side, bundle_of(kernel())))
        roster.entrant(side, 0)
    roster.clear()
    assert paper.unloaded == 2
    with pytest.raises(BadMessage, match="no plan"):
        roster.entrant(PairSide.PACER, 0)
