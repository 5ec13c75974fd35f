"""Proposals whose plans a search has already are recognised by what earlier traces of the same program showed."""

import random

from archive.records import NewCandidate, NewVariant, SearchRecord, TraceOutcome
from archive.store import Store
from service.generation.known_plans import KnownPlans, _taken_apart, differing, idle_parameters
from service.generation.proposals import Proposer
from service.operators.catalogue import load_catalogue
from tests.service.generation.making import OPERATOR, begin
from tests.service.records import TUNABLE

TARGET = "sm_90"


def test_what_differs_between_equal_plans_is_idle() -> None:
    members = [
        ({"num_warps": 4, "num_stages": 3}, ("a",)),
        ({"num_warps": 4, "num_stages": 5}, ("a",)),
        ({"num_warps": 8, "num_stages": 3}, ("b",)),
    ]
    assert idle_parameters(members) == {"num_stages"}
    assert idle_parameters(members[::2]) == frozenset(), "nothing equal was seen"


def test_a_different_plan_refutes_it() -> None:
    members = [
        ({"num_warps": 4, "num_stages": 3}, ("a",)),
        ({"num_warps": 4, "num_stages": 5}, ("a",)),
        ({"num_warps": 4, "num_stages": 1}, ("b",)),
    ]
    assert idle_parameters(members) == frozenset()


def test_every_variant_counts() -> None:
    assert idle_parameters([({"tile": 1}, ("a", "b")), ({"tile": 2}, ("a", "c"))]) == frozenset()
    assert idle_parameters([({"tile": 1}, ("a", "b")), ({"tile": 2}, ("a", "b"))]) == {"tile"}


def test_a_parameter_that_is_not_written_differs_from_any_value() -> None:
    assert differing({"cap": None, "warps": 4}, {"cap": 512, "warps": 4}) == {"cap"}
    assert differing({"warps": 4}, {"warps": 4, "cap": 512}) == {"cap"}


def test_candidates_of_one_program_differ_in_values_alone() -> None:
    source = load_catalogue()["softmax"].seeds[0]
    assert "num_warps=" in source
    other = source.replace("num_warps=8", "num_warps=4", 1)
    assert other != source
    one, two = _taken_apart(source, TARGET), _taken_apart(other, TARGET)
    assert one.program == two.program and differing(one.values, two.values)
    assert _taken_apart(source.replace("tl.exp", "tl.exp2", 1), TARGET).program != one.program


async def judged(store: Store, search: SearchRecord, ordinal: int, source: str, plan: str) -> None:
    """Store an evaluated candidate of one variant with a plan."""
    id = f"{search.id}:{ordinal}"
    await store.candidates.add(NewCandidate(id, search.id, ordinal, "tune", source, id, id, ("p",), "a change"))
    variant = NewVariant(0, {}, None, "", None, plan, "{}", ())
    await store.candidates.save_trace(id, TraceOutcome(None, "", None, {}, (variant,)))
    await store.candidates.judge(id, "correct", "", None, 1.0)


def text(warps: int, block: int = 256) -> str:
    return TUNABLE.replace("num_warps=4", f"num_warps={warps}").replace("256", str(block))


async def test_what_a_search_has_seen_decides(store: Store) -> None:
    search, known = await begin(store), KnownPlans(store)

    async def share(warps: int, block: int = 256) -> float:
        asked = [await known.has(search, TARGET, text(warps, block), random.Random(seed)) for seed in range(100)]
        return sum(asked) / len(asked)

    await judged(store, search, 0, text(4), "a")
    assert await share(2) == 0, "nothing is known of the warps"
    await judged(store, search, 1, text(8), "a")
    assert 0.8 < await share(2) < 1, "warps do not matter; some are tried all the same"
    assert await share(2, 512) == 0, "no candidate has such a block"
    await judged(store, search, 2, text(4, 512), "b")
    assert await share(2, 512) > 0.8
    assert await known.has(search, TARGET, text(4), random.Random(1), {"BLOCK": 512})
    await judged(store, search, 3, text(1, 512), "c")
    assert await share(2) == await share(2, 512) == 0, "warps matter after all"
    assert await KnownPlans(store).has(search, TARGET, text(1, 512), random.Random(1)), "the archive holds everything"


async def test_the_emitters_go_on_to_what_is_not_known(store: Store) -> None:
    search = await begin(store)
    for ordinal, source in enumerate((text(4), text(8), text(4, 512))):
        await judged(store, search, ordinal, source, "a")
    made = [await Proposer(store).propose(Proposer(store).look(search), OPERATOR, number) for number in range(9, 49)]
    found = [_taken_apart(each.proposal.source, TARGET).program for each in made if each is not None]
    idle = found.count(_taken_apart(text(4), TARGET).program)
    assert len(found) == 40 and idle < 4, "neither warps nor blocks change a plan; one in twenty is tried all the same"
