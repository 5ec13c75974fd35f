"""The proof's contenders, moves and figures, in an imagined space."""

import random

import pytest

from archive.descriptors import DEFAULT_AXES, DESCRIPTORS
from archive.grid import Grid
from benchmarks.contenders import HillClimbing, embed
from benchmarks.efforts import evaluations_to
from benchmarks.proof import (
    BASIS,
    CONTENDERS,
    NEEDS,
    compete,
    portfolio_gain,
    qd_score,
    run,
    spaces,
    summaries,
)
from benchmarks.recorded_space import JOINT, RecordedSpace, distance
from tests.imagined import imagine

EVALUATIONS = 40
KERNELS = 400
"""Among 150 it takes luck: a contender that stays near its elites may know all neighbours after nine verdicts."""


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proof")
    imagine(folder, count=KERNELS)
    (found,) = spaces(folder / "landscapes" / "h200", DEFAULT_AXES).values()
    return found


def test_a_space_holds_what_was_recorded(space):
    assert 0.7 * KERNELS < len(space.kernels) <= KERNELS and space.provenance == "recorded"
    failed = [kernel for kernel in space.kernels if kernel.objective is None]
    assert 0 < len(failed) <= KERNELS // 7 and all(kernel.cell is None and not kernel.speedups for kernel in failed)
    assert space.seed.path == "seed" and space.seed.objective == pytest.approx(1 / 1.01)
    assert all(speedup == pytest.approx(1.0) for speedup in space.seed.speedups.values())
    assert space.best == max(kernel.objective or 0.0 for kernel in space.kernels)


def test_moves_stay_inside_and_do_what_they_say(space):
    rng = random.Random(1)
    for kernel in space.kernels:
        tuned, other = space.tune(kernel, rng), space.rewrite(kernel, rng)
        assert tuned is None or (tuned.template == kernel.template and tuned is not kernel)
        if other is not None:
            assert len(set(other.path.split(JOINT)) ^ set(kernel.path.split(JOINT))) == 1
        crossed = space.cross(kernel, space.draw(rng), rng)
        assert crossed is None or crossed.template == kernel.template
    assert distance({"a": 4, "b": 2}, {"a": 16, "c": 1}) == 2.0


@pytest.mark.parametrize("name", [name for name in CONTENDERS if name not in NEEDS])
def test_every_contender_judges_as_many_kernels_and_the_same_ones_again(space, name):
    first, curve = compete(CONTENDERS[name](space, 3), EVALUATIONS)
    assert 10 < len(first) == len({kernel.number for kernel in first}) == len(curve) <= EVALUATIONS
    assert curve == sorted(curve) and curve[-1] == max(kernel.objective or 0.0 for kernel in first)
    assert compete(CONTENDERS[name](space, 3), EVALUATIONS)[0] == first
    others = [compete(CONTENDERS[name](space, seed), EVALUATIONS)[0] for seed in (4, 5)]
    assert any(other != first for other in others)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
@pytest.mark.filterwarnings("ignore")
def test_peers_compete_alike(space, name):
    pytest.importorskip(NEEDS[name])
    _, curve = compete(CONTENDERS[name](space, 3), EVALUATIONS)
    assert len(curve) == EVALUATIONS and curve[-1] > 0


def test_an_embedding_tells_kernels_apart(space):
    rows = [tuple(row) for row in embed(space)]
    assert len(rows) == len(space.kernels) and len(set(rows)) > 0.7 * len(rows)


def test_hill_climbing_goes_up_and_starts_anew(space):
    climber = HillClimbing(space, 1)
    for _ in range(200):
        kernel = climber.ask()
        climber.tell(kernel)
        assert (climber._at.objective or 0.0) >= (kernel.objective or 0.0) or kernel is climber._at


def test_figures_of_a_run_follow_from_its_curve():
    assert evaluations_to([0.5, 0.9, 0.9, 1.0], 0.9) == 2
    assert evaluations_to([0.5], 0.9) is None


def test_quality_diversity_counts_the_best_of_each_cell(space):
    score, coverage = qd_score(space, space.kernels)
    held = {}
    for kernel in space.kernels:
        if kernel.objective is not None:
            held[kernel.cell] = max(held.get(kernel.cell, 0.0), kernel.objective)
    assert (score, coverage) == (sum(held.values()), len(held) / space.grid.cells)


def test_a_portfolio_is_never_slower_than_its_best_kernel(space):
    assert portfolio_gain(space.kernels) >= 1.0
    assert portfolio_gain([]) is None


def test_summaries_hold_everybody_against_best_of_n(space):
    rows = [run(space, name, seed, EVALUATIONS) for name in (BASIS, "hill climbing") for seed in range(3)]
    found = {row["contender"]: row for row in summaries(rows)}
    assert found[BASIS]["runs"] == 3 and found[BASIS]["runs_that_reached_basis"] >= 2
    assert found["hill climbing"]["median_best"] == sorted(row["best"] for row in rows[3:])[1]


def test_a_space_without_its_seed_says_so(space, tmp_path):
    landscape = imagine(tmp_path, count=3)
    landscape.bundles.clear()
    with pytest.raises(ValueError, match="record longer"):
        RecordedSpace(landscape, Grid([DESCRIPTORS[name].axis for name in DEFAULT_AXES]))
