from tests.service.emitters.samples import DOUBLED, applies, candidate, rewritten, seed


def test_a_division_an_element_becomes_a_division_a_row():
    code = rewritten("reciprocal", seed("softmax"))
    assert "numerator * (1.0 / tl.sum(numerator, axis=0))" in code


def test_also_in_a_tile_of_rows():
    code = rewritten("reciprocal", rewritten("rows_tile", seed("softmax")))
    assert "numerator * (1.0 / tl.sum(numerator, axis=1, keep_dims=True))" in code


def test_divisions_that_stay():
    for value in ("x / x", "1.0 / x", "x / n_cols", "cols / tl.sum(x, axis=0)", "x // tl.sum(x, axis=0)"):
        assert not applies("reciprocal", candidate(DOUBLED.replace("x + x", value)))
