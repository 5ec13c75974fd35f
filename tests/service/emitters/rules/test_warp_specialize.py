from tests.service.emitters.samples import applies, rewritten, seed

FETCHED = rewritten("tensor_descriptors", rewritten("tensor_descriptors", seed("matmul")))


def test_a_sweep_over_fetched_operands_is_specialised():
    assert "tl.range(0, K, BLOCK_K, warp_specialize=ALIGNED_1 & ALIGNED)" in rewritten("warp_specialize", FETCHED)
    piped = rewritten("pipeline_loop", FETCHED)
    assert "warp_specialize=ALIGNED" in rewritten("warp_specialize", piped) and "tl.range(0, K, BLOCK_K, " in piped


def test_only_what_descriptors_fetch_and_once():
    assert not applies("warp_specialize", seed("matmul"))
    assert not applies("warp_specialize", seed("rmsnorm"))
    assert not applies("warp_specialize", rewritten("tensor_descriptors", seed("matmul")))
    assert not applies("warp_specialize", rewritten("warp_specialize", FETCHED))
