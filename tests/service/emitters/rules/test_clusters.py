import pytest

from tests.service.emitters.samples import applies, rewritten, seed


@pytest.mark.parametrize("draw", range(4))
def test_a_launch_asks_for_a_cluster(draw):
    code = rewritten("clusters", seed("matmul"), draw)
    assert "num_ctas=2" in code or "num_ctas=4" in code


def test_once_and_for_matrix_products_only():
    assert not applies("clusters", rewritten("clusters", seed("matmul")))
    assert not applies("clusters", seed("softmax"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total = tl.dot(a, b, total)", "total = tl.dot(a, b, total) + tl.dot(a, b)"),
        ("total, mask=", "total / tl.sum(total, axis=1)[:, None], mask="),
        ("total, mask=", "total / total.sum(1)[:, None], mask="),
        ("in range(0, K, BLOCK_K)", "in tl.range(0, K, BLOCK_K, loop_unroll_factor=2)"),
        ("in range(0, K, BLOCK_K)", "in tl.static_range(0, K, BLOCK_K)"),
    ],
)
def test_not_where_blocks_would_have_to_talk_or_products_repeat(old, new):
    assert old in seed("matmul")
    assert not applies("clusters", seed("matmul").replace(old, new))
    assert not applies("clusters", seed("attention"))


@pytest.mark.parametrize(
    "others", [("pipeline_loop",), ("tensor_descriptors", "tensor_descriptors", "warp_specialize")]
)
def test_products_are_not_repeated_afterwards(others):
    *before, last = others
    code = seed("matmul")
    for name in before:
        code = rewritten(name, code)
    assert applies(last, code)
    assert not applies(last, rewritten("clusters", code))


@pytest.mark.parametrize("draw", range(4))
def test_what_comes_out_compiles(draw, compiler):
    code = rewritten("clusters", rewritten("tensor_descriptors", seed("matmul"), draw), draw)
    sizes = {"source": code, "operator": "matmul", "sizes": ((64, 128),), "dtype": "bfloat16"}
    assert "error" not in compiler.ask(**sizes)
