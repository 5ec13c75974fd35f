"""Rogues of the device side, as far as they can be tried without one: what they declare, their traces, their models."""

import ast
from collections import Counter

import pytest

from service.operators.sources import digest
from tests.gpu.contracts import operators, shapes_of
from tests.gpu.judging import trace_job
from tests.gpu.rogues import MOST_GAIN, load_rogues, sure_gain
from tests.traces import trace_once
from tests.workers.protocol.documents import bundle
from tests.workers.protocol.test_report import CONFIRMED
from tests.workers.rogues.modelled import DEVICE, model_job
from workers.devices import open_device
from workers.protocol import Outcome, Samples, ShapeResult, Stage

ROGUES = load_rogues()
DEADLINE_S = 60.0
"""For the interpreter: enough for all but the endless one, which is to run into it."""
DEVICE_OUTCOMES = {
    Outcome.WRONG_RESULT,
    Outcome.INPUT_MUTATED,
    Outcome.OUT_OF_BOUNDS,
    Outcome.NONDETERMINISTIC,
    Outcome.PRECISION,
    Outcome.DEVICE_FAULT,
    Outcome.HANG,
}


def traced(rogue, shapes):
    return trace_once(trace_job(rogue.name, rogue.operator, rogue.source).model_copy(update={"shapes": shapes}))


def test_there_are_many_and_no_two_are_alike():
    assert len(ROGUES) >= 24
    assert len({digest(rogue.source) for rogue in ROGUES.values()}) == len(ROGUES)
    assert len({rogue.cheat for rogue in ROGUES.values()}) == len(ROGUES)
    assert len(Counter(rogue.operator for rogue in ROGUES.values())) >= 8


def test_every_outcome_that_only_a_device_can_find_is_expected_of_one():
    assert set().union(*(rogue.outcomes for rogue in ROGUES.values())) >= DEVICE_OUTCOMES


@pytest.mark.parametrize("name", ROGUES)
def test_a_rogue_says_what_it_is(name):
    rogue = ROGUES[name]
    assert rogue.operator in operators()
    assert rogue.cheat.endswith(".") and rogue.stopped_by
    assert bool(rogue.stages) == (rogue.outcomes != {Outcome.CORRECT}), "who can fail, fails at some stage"
    entry = operators()[rogue.operator].entry
    assert entry in {node.name for node in ast.parse(rogue.source).body if isinstance(node, ast.FunctionDef)}


AGAIN = pytest.mark.slow(reason="`test_the_model_device_finds_out_what_it_can` traces it at all shapes")


def one_of_each() -> list:
    """Those that do not trace, and the first of each operator; the others wait for the long suites."""
    first = {rogue.operator: name for name, rogue in reversed(ROGUES.items()) if rogue.is_traced}
    chosen = {*first.values(), *(name for name, rogue in ROGUES.items() if not rogue.is_traced)}
    return [name if name in chosen else pytest.param(name, marks=AGAIN) for name in ROGUES]


@pytest.mark.parametrize("name", one_of_each())
def test_a_rogue_looks_like_a_candidate(name):
    rogue = ROGUES[name]
    shapes = shapes_of(operators()[rogue.operator])[: 2 if rogue.is_traced else None]
    report = traced(rogue, shapes)
    if not rogue.is_traced:
        assert {report.outcome} == rogue.outcomes, report.reason
        assert report.stage in rogue.stages
        return
    assert report.outcome is Outcome.CORRECT, report.reason
    (variant,) = report.variants
    assert set(variant.bundle.cubins) == set(variant.bundle.kernels)
    assert len(variant.readings) == len(shapes)


def test_misaligned_accesses_are_vectors():
    operator = operators()["gelu"]
    (variant,) = traced(ROGUES["misaligned"], shapes_of(operator)).variants
    assert any("ld.global.v4" in kernel.assembly for kernel in variant.bundle.kernels.values())


def test_shared_memory_that_nobody_gave_is_within_what_is_reserved():
    operator = operators()["cross_entropy"]
    (variant,) = traced(ROGUES["leftover_shared_memory"], shapes_of(operator)[:1]).variants
    assert max(kernel.shared_bytes for kernel in variant.bundle.kernels.values()) >= 8192 + 8 * 4096


@pytest.fixture(scope="module")
def model():
    bench = open_device(DEVICE, "tester")
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def graphs():
    """The reference of every operator that a rogue pretends to compute."""
    names = {rogue.operator for rogue in ROGUES.values()}
    return {name: trace_once(trace_job(name, name, None)).graphs for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, rogue in ROGUES.items() if rogue.is_traced])
def test_the_model_device_finds_out_what_it_can(name, model, graphs):
    rogue, operator = ROGUES[name], operators()[ROGUES[name].operator]
    report = traced(rogue, shapes_of(operator))
    assert report.outcome is Outcome.CORRECT, report.reason
    job = model_job(operator, rogue.source, report, graphs[rogue.operator])
    judged = model.measure(job.model_copy(update={"deadline_s": DEADLINE_S}))
    assert judged.outcome in rogue.on_model, judged.reason
    assert judged.stage in (Stage.CHECK, None)


@pytest.mark.parametrize(("gain", "pays"), [(1.0, False), (1.004, False), (1.01, True)])
def test_a_cheat_pays_that_wins_more_than_a_promotion_asks_for(gain, pays):
    assert len(bundle().benchmarks) == 1
    noise = [1 + 0.001 * (number % 5 - 2) for number in range(16)]
    samples = Samples(candidate_us=tuple(20 * each for each in noise), other_us=(20 * gain,) * 16, calls=1)
    report = CONFIRMED.model_copy(update={"shapes": (ShapeResult(shape="M=8,N=16", samples=samples),)})
    assert (sure_gain(report, bundle()) > MOST_GAIN) == pays
    assert sure_gain(CONFIRMED, bundle()) == 0.0
