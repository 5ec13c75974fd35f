from tests.service.emitters.samples import applies, rewritten, seed


def test_aligned_rows_are_fetched_and_others_loaded():
    code = rewritten("tensor_descriptors", rewritten("tensor_descriptors", seed("matmul")))
    assert "if ALIGNED:" in code and "ALIGNED: tl.constexpr" in code
    assert "tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K]).load(" in code
    assert "a = tl.load(a_ptr + " in code
    assert "=K * a.element_size() % 16 == 0" in code and "=N * b.element_size() % 16 == 0" in code


def test_only_matrices_that_a_parameter_points_to():
    assert not applies("tensor_descriptors", seed("attention"))
    assert not applies("tensor_descriptors", seed("gelu"))


def test_a_box_that_is_fetched_already_is_not_fetched_again():
    twice = rewritten("tensor_descriptors", rewritten("tensor_descriptors", seed("matmul")))
    assert twice.count("make_tensor_descriptor") == 2
    assert not applies("tensor_descriptors", twice)
