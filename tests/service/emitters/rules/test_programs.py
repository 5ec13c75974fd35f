import pytest

from service.emitters.rules.patterns import text
from service.emitters.rules.programs import programs, shareable
from service.operators.sources import render
from tests.service.emitters.samples import DOUBLED, candidate, kernel_of, rewritten

SOURCE = candidate(DOUBLED)


def found(source):
    return programs(kernel_of(source))


def test_one_piece_a_program():
    site = found(SOURCE)
    assert site.loop is None
    assert site.total == "tl.num_programs(0)"
    assert site.pieces(site.kernel.launches[0]) == "n_rows"
    assert site.pieces(site.kernel.launches[0], axis=1) == ""


@pytest.mark.parametrize("rule", ["persistent", "run_of_pieces"])
def test_loops_over_pieces_are_known_again(rule):
    site = found(rewritten(rule, SOURCE))
    assert site.count == site.total == "programs"
    assert site.pieces(site.kernel.launches[0]) == "n_rows"
    assert shareable(site.kernel) is None


def test_the_number_of_pieces_is_asked_for_once():
    site = found(SOURCE.replace("row * n_cols + cols, x + x", "tl.program_id(0) * n_cols + cols, x + x"))
    assert text(site.definition()) == "program = tl.program_id(0)"
    assert render(site.kernel.module).count("tl.program_id(0)") == 1
    assert site.definition() is site.kernel.function.body[0]


def test_a_definition_that_is_there_is_kept():
    site = found(
        SOURCE.replace("row = tl.program_id(0).to(tl.int64)", "row = tl.num_programs(0) - 1 - tl.program_id(0)")
    )
    assert text(site.definition().targets[0]) == "row"


def test_another_number_of_pieces():
    for source in (SOURCE, rewritten("persistent", SOURCE)):
        site = found(source)
        site.set_pieces(site.kernel.launches[0], "n_rows // 2")
        assert site.pieces(site.kernel.launches[0]) == "n_rows // 2"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.program_id(0)", "tl.load(x_ptr)"),
        ("tl.program_id(0)", "tl.program_id(axis=0)"),
        ("kernel[(n_rows,)]", "kernel[n_rows]"),
    ],
)
def test_no_known_way(old, new):
    assert old in SOURCE
    kernel = kernel_of(SOURCE.replace(old, new))
    assert programs(kernel) is None


def test_a_strange_loop_over_pieces_is_not_known():
    head = "for row in range(tl.program_id(0), n_cols, tl.num_programs(0)):"
    assert found(candidate(f"{head}\n    tl.store(y_ptr + row, tl.load(x_ptr + row))")) is None


@pytest.mark.parametrize(
    "source",
    [
        SOURCE.replace("(n_rows,)", "(n_rows, 1)"),
        SOURCE.replace("    cols =", "    if row > 3:\n        return\n    cols ="),
    ],
)
def test_what_cannot_be_shared(source):
    assert found(source) is not None
    assert shareable(kernel_of(source)) is None
