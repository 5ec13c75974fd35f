import pytest

from tests.service.emitters.samples import applies, rewritten, seed


@pytest.mark.parametrize("draw", range(4))
def test_a_launch_asks_for_a_cluster(draw):
    code = rewritten("clusters", seed("matmul"), draw)
    assert "num_ctas=2" in code or "num_ctas=4" in code


def test_once_and_for_matrix_products_only():
    assert not applies("clusters", rewritten("clusters", seed("matmul")))
    assert not applies("clusters", seed("softmax"))
