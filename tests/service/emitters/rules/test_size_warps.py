from tests.service.emitters.samples import applies, rewritten, seed


def test_warps_follow_the_tile():
    code = rewritten("size_warps", seed("softmax"))
    assert "BLOCK = triton.next_power_of_2(n_cols)\n" in code
    assert "num_warps=max(1, min(32, BLOCK // " in code


def test_a_launch_without_the_option_gets_it():
    assert applies("size_warps", seed("softmax").replace(", num_warps=8", ""))


def test_tiles_of_one_extent_need_one_number():
    assert not applies("size_warps", seed("gelu"))


def test_once_is_enough():
    assert not applies("size_warps", rewritten("size_warps", seed("softmax")))
