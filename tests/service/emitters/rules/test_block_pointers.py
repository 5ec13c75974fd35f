from tests.service.emitters.samples import applies, rewritten, seed


def test_a_load_goes_through_a_block_pointer():
    code = rewritten("block_pointers", seed("matmul"), 1)
    pointers = (
        "tl.make_block_ptr(a_ptr, (M, K), (K, 1), (tl.program_id(0) * BLOCK_M, start), (BLOCK_M, BLOCK_K), (1, 0))",
        "tl.make_block_ptr(b_ptr, (K, N), (N, 1), (start, tl.program_id(1) * BLOCK_N), (BLOCK_K, BLOCK_N), (1, 0))",
    )
    assert any(f"tl.load({item}, boundary_check=(0, 1), padding_option='zero')" in code for item in pointers)


def test_each_load_once():
    twice = rewritten("block_pointers", rewritten("block_pointers", seed("matmul")))
    assert twice.count("make_block_ptr") == 2 and not applies("block_pointers", twice)
    assert not applies("block_pointers", seed("softmax"))
