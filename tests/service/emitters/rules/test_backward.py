from tests.service.emitters.samples import applies, rewritten, seed


def test_pieces_are_counted_from_the_end():
    assert "program = tl.num_programs(0) - 1 - tl.program_id(0)" in rewritten("backward", seed("attention"))
    persistent = rewritten("backward", rewritten("persistent", seed("gelu")))
    assert "program = programs - 1 - (tl.program_id(0) + turn * tl.num_programs(0))" in persistent


def test_once_is_enough():
    assert not applies("backward", rewritten("backward", seed("gelu")))
