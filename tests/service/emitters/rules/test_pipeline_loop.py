import re

from tests.service.emitters.samples import applies, rewritten, seed


def test_a_wish_for_each_sweep():
    found = {rewritten("pipeline_loop", seed("matmul"), draw) for draw in range(20)}
    wishes = {wish for code in found for wish in re.findall(r"tl\.range\(0, K, BLOCK_K, (\w+)=\d\)", code)}
    assert wishes == {"num_stages", "loop_unroll_factor"}


def test_one_wish_is_enough():
    assert not applies("pipeline_loop", rewritten("pipeline_loop", seed("matmul")))
    assert not applies("pipeline_loop", seed("gelu"))
