import random
from dataclasses import replace

import pytest

from service.emitters.base import EmitterTrial, Parent, ProposalContext
from service.emitters.tune import DRAWS, Tune, describe, read, write
from service.operators.catalogue import load_catalogue
from tests.service.emitters.samples import rewritten, seed

MANY = tuple(EmitterTrial("", "correct", 1.0, ("other",)) for _ in range(DRAWS))


def context(*sources, draw=0, trials=()):
    parents = tuple(Parent(f"c{number}", source) for number, source in enumerate(sources))
    return ProposalContext({}, "sm_90", parents, trials, random.Random(draw))


async def notes(*sources, trials=(), draws=40):
    found = [await Tune().propose(context(*sources, draw=draw, trials=trials)) for draw in range(draws)]
    return [proposal.note for proposal in found if proposal]


def test_reading_and_writing():
    source = write(seed("matmul"), "sm_90", {"BLOCK_M": 128, "num_stages": 4})
    values = {item.name: item.value for item in read(source, "sm_90")}
    assert values == {"num_warps": 4, "num_stages": 4, "BLOCK_K": 32, "BLOCK_M": 128, "BLOCK_N": 64}
    assert "triton.cdiv(M, BLOCK_M)" in source


def test_options_and_caps_are_added():
    looped = rewritten("chunk_row", seed("softmax"))
    found = write(looped.replace(", num_warps=8", ""), "sm_90", {"num_warps": 16, "BLOCK cap": 512})
    assert "num_warps=16" in found
    assert "min(triton.next_power_of_2(n_cols), 512)" in found


def test_notes_say_what_changes_in_order():
    found = read(seed("gelu"), "sm_90")
    assert describe(found, {"BLOCK": 2048, "num_warps": 8}) == "num_warps 4 -> 8; BLOCK 1024 -> 2048"
    assert describe(found, {"BLOCK": 1024}) == ""
    assert describe([], {}) == ""


async def test_early_draws_are_wide_and_later_ones_near():
    far = [note for note in await notes(seed("gelu")) if "BLOCK 1024 -> 16" in note or "-> 65536" in note]
    assert far
    steps = {"num_warps 4 -> 2", "num_warps 4 -> 8", "BLOCK 1024 -> 512", "BLOCK 1024 -> 2048"}
    near = [note for note in await notes(seed("gelu"), trials=MANY) if set(note.split("; ")) <= steps]
    assert len(near) > 30


async def test_kernels_that_no_benchmark_shape_launches_are_left_alone():
    (source,) = [text for text in load_catalogue()["matmul"].seeds if "@gluon.jit" in text]
    known = Parent("c0", source, launched=frozenset({"matmul_kernel"}))
    edits = Tune().edits(replace(context(source), parents=(known,)))
    names = {name for edit in edits for name in edit.values}
    assert {"SLOTS", "GROUP_M", "matmul_kernel.BLOCK_K", "programs_per_sm"} <= names
    assert not any("plain_kernel" in name for name in names) and "num_stages" not in names
    assert {name for edit in Tune().edits(context(source)) for name in edit.values} > names
    found = [await Tune().propose(replace(context(draw=draw), parents=(known,))) for draw in range(20)]
    assert all(each is not None and "plain" not in each.note and "num_" not in each.note for each in found)


async def test_what_was_tried_on_this_parent_is_not_proposed_again():
    tried = []
    while proposal := await Tune().propose(context(seed("rmsnorm"), trials=tuple(tried))):
        assert proposal.note not in [trial.note for trial in tried]
        tried.append(EmitterTrial(proposal.note, "correct", 1.0, ("c0",)))
    assert {trial.note for trial in tried} >= {"num_warps 8 -> 4", "num_warps 8 -> 16"}
    elsewhere = tuple(EmitterTrial(trial.note, "correct", 1.0, ("other",)) for trial in tried)
    assert await Tune().propose(context(seed("rmsnorm"), trials=elsewhere))
    unknown = tuple(EmitterTrial(trial.note, "correct", 1.0) for trial in tried)
    assert await Tune().propose(context(seed("rmsnorm"), trials=unknown)) is None


@pytest.mark.parametrize("source", ["x = (", "", "def entry(x):\n    return x"])
async def test_nothing_to_tune(source):
    assert await Tune().propose(context(source)) is None


def test_ways_are_other_values_of_one_number_and_two_steps_and_lead_where_they_say():
    start = context(seed("gelu"))
    edits = Tune().edits(start)
    assert {len(edit.values) for edit in edits} == {1, 2} and len({edit.note for edit in edits}) == len(edits)
    for edit in edits[:: len(edits) // 5]:
        made = Tune().apply(start, edit)
        assert (made.note, made.parents) == (edit.note, ("c0",))
        assert edit.values.items() <= {item.name: item.value for item in read(made.source, "sm_90")}.items()
