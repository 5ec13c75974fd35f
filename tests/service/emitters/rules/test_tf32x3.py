import ast

import pytest

from tests.service.emitters.samples import applies, rewritten, seed, small

PLAIN = seed("matmul")


def said(words, source=PLAIN):
    """A matrix product that is asked for in other words."""
    after = source.replace("tl.dot(a, b, total)", f"tl.dot(a, b, total{words})")
    assert after != source or not words
    return after


def dots(source):
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if ast.unparse(node).startswith("tl.dot(")]


@pytest.mark.parametrize("words", ["input_precision='ieee'", "input_precision='IEEE'", "allow_tf32=False"])
def test_a_float32_product_becomes_three_of_tf32(words):
    assert "tl.dot(a, b, total, input_precision='tf32x3')" in rewritten("tf32x3", said(f", {words}"))


def test_other_options_stay():
    code = rewritten("tf32x3", said(", allow_tf32=False, out_dtype=tl.float32"))
    assert "tl.dot(a, b, total, out_dtype=tl.float32, input_precision='tf32x3')" in code


def test_all_products_of_a_kernel_change_together():
    assert seed("gated_linear_attention").count('input_precision="ieee"') == 4
    code = rewritten("tf32x3", seed("gated_linear_attention"))
    assert code.count("input_precision='tf32x3'") == 4 and "ieee" not in code


def test_products_that_stay():
    for words in (
        "",
        ", input_precision='tf32'",
        ", input_precision='tf32x3'",
        ", input_precision='bf16x3'",
        ", input_precision=PRECISION",
        ", allow_tf32=True",
        ", allow_tf32=ALLOW",
        ", 'ieee'",
        ", **{'input_precision': 'ieee'}",
    ):
        assert not applies("tf32x3", said(words)), words


def test_it_does_not_undo_itself():
    assert not applies("tf32x3", rewritten("tf32x3", said(", input_precision='ieee'")))


def test_it_never_writes_what_the_contract_forbids():
    for words in (", input_precision='ieee'", ", allow_tf32=False"):
        assert not [text for text in dots(rewritten("tf32x3", said(words))) if "'tf32'" in text or "allow" in text]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_compiles_whatever_the_operands_are(compiler, dtype):
    """Where operands are narrower than float32 the option means nothing."""
    source = rewritten("tf32x3", said(", input_precision='ieee'", small("matmul")))
    assert "error" not in compiler.ask(source, "matmul", sizes=((3, 64),), dtype=dtype)
