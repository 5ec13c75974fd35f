from tests.service.emitters.samples import applies, rewritten, seed


def test_the_scale_is_written_out():
    code = rewritten("exp2", seed("softmax"))
    assert "tl.exp2((x - tl.max(x, axis=0)) * 1.4426950408889634)" in code


def test_nested_calls():
    source = seed("softmax").replace("tl.exp(x - tl.max(x, axis=0))", "tl.exp(-tl.exp(x))")
    assert "tl.exp2(-tl.exp2(x * 1.4426950408889634) * 1.4426950408889634)" in rewritten("exp2", source)


def test_nothing_to_raise():
    assert not applies("exp2", seed("gelu"))
    assert not applies("exp2", rewritten("exp2", seed("softmax")))
