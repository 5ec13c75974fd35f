from tests.service.emitters.samples import applies, rewritten, seed


def test_starts_of_sweeps_and_of_programs():
    swept = rewritten("contiguity", seed("cross_entropy"))
    assert "tl.max_contiguous(tl.multiple_of(start + tl.arange(0, BLOCK), BLOCK), BLOCK)" in swept
    dealt = rewritten("contiguity", seed("gelu"))
    assert "multiple_of(tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK), BLOCK)" in dealt


def test_once_for_each():
    assert not applies("contiguity", rewritten("contiguity", seed("gelu")))


def test_starts_that_may_be_anything():
    assert not applies("contiguity", seed("rmsnorm"))
    assert not applies("contiguity", seed("gelu").replace("* BLOCK +", "* 1000 +"))
    assert not applies("contiguity", seed("gelu").replace("+ tl.arange(0, BLOCK)", "+ 2 * tl.arange(0, BLOCK)"))
