from tests.service.emitters.samples import applies, rewritten, seed

STRIDED = rewritten("persistent", seed("rmsnorm"))
NESTED = rewritten("persistent", rewritten("flat_grid", seed("matmul")))


def test_rows_are_double_buffered():
    found = {rewritten("pipeline_pieces", STRIDED, draw).partition("num_stages=")[2][0] for draw in range(8)}
    assert found == {"2", "3"}
    assert "for turn in tl.range(0, tl.cdiv(programs" in rewritten("pipeline_pieces", STRIDED)


def test_nested_loops_are_flattened():
    assert "flatten=True" in rewritten("pipeline_pieces", NESTED)


def test_only_programs_with_several_pieces_and_once():
    assert not applies("pipeline_pieces", seed("rmsnorm"))
    assert not applies("pipeline_pieces", rewritten("pipeline_pieces", STRIDED))
