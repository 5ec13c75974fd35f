"""Inline assembly: known instructions are computed, and any other text is refused."""

import re

import numpy as np
import pytest
import torch
from triton import language as tl

from tests.workers.interpreter.stage import Out, interpret
from workers.interpreter.faults import NotInterpretable
from workers.interpreter.formats import TensorValue
from workers.interpreter.inline import INSTRUCTIONS, compute

X = np.array([0.25, 1.0, 1.5, 3.0], np.float32)
Y = np.array([2.0, -1.0, 0.5, 3.0], np.float32)
Z = np.array([1.0, 1.0, -2.0, 0.125], np.float32)
EXPECTED = {
    "ex2.approx.f32": np.exp2(X), "lg2.approx.f32": np.log2(X), "rsqrt.approx.f32": X**-0.5, "rcp.approx.f32": 1 / X,
    "sqrt.approx.f32": X**0.5, "sin.approx.f32": np.sin(X), "cos.approx.f32": np.cos(X), "tanh.approx.f32": np.tanh(X),
    "fma.rn.f32": X * Y + Z, "add.f32": X + Y, "sub.f32": X - Y, "mul.f32": X * Y, "max.f32": np.maximum(X, Y),
    "min.f32": np.minimum(X, Y), "tanh.approx.f16x2": np.tanh(X), "tanh.approx.bf16x2": np.tanh(X),
}  # fmt: skip
COARSE = {"tanh.approx.f32": 2**-11, "tanh.approx.f16x2": 2**-10, "tanh.approx.bf16x2": 2**-8}

KERNEL = """
@triton.jit
def kernel(a0, a1):
    i = tl.arange(0, 4)
    x = tl.load(a0 + i)
    tl.store(a1 + i, tl.inline_asm_elementwise({}))
"""


def form(name: str) -> str:
    return f"{name} {', '.join(f'${place}' for place in range(INSTRUCTIONS[name].operands + 1))};"


def computed(name: str, *operands: np.ndarray, text: str = "", **said: object) -> np.ndarray:
    """Compute a text in the form of `name`, with some parts replaced."""
    known = INSTRUCTIONS[name]
    given = {"constraints": known.constraints[0], "dtype": known.dtype, "pack": known.pack, "results": 1, **said}
    values = [TensorValue(data[None, None], given["dtype"]) for data in operands]
    types = [tl.block_type(known.dtype, [4])] * given["results"]
    with np.errstate(all="ignore"):
        return compute(text or form(name), given["constraints"], values, types, given["pack"])[0].data[0, 0]


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions_compute_what_they_say(name: str):
    plain = name.replace(".ftz", "")
    got = computed(name, *(X, Y, Z)[: INSTRUCTIONS[name].operands])
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, EXPECTED[plain], rtol=COARSE.get(plain, 1e-6), atol=1e-7)


def test_tanh_is_as_coarse_as_ptx_allows():
    x = np.linspace(-3, 3, 1001, dtype=np.float32)
    error = np.abs(computed("tanh.approx.f32", x) - np.tanh(x.astype(np.float64))) / np.abs(np.tanh(x) + 1e-30)
    assert 2**-12 < error.max() <= 2**-11


def test_angles_are_taken_in_turns_of_float32():
    (near, far) = computed("sin.approx.f32", np.array([0.5, 1e6], np.float32)) - np.sin(np.array([0.5, 1e6]))
    assert abs(near) < 2**-20.5 and abs(far) > 1e-3


def test_ftz_flushes_what_is_read_and_what_is_written():
    small = np.array([1e-40, -1e-40, 0.0, 1.0], np.float32)
    assert computed("add.ftz.f32", small, small * 0).tolist() == [0.0, 0.0, 0.0, 1.0]
    assert np.signbit(computed("add.ftz.f32", small, np.float32(-0.0) * np.abs(small)))[1]
    assert computed("ex2.approx.ftz.f32", np.full(1, -130, np.float32)).tolist() == [0.0]
    assert computed("ex2.approx.f32", np.full(1, -130, np.float32)).tolist() == [2.0**-130]
    assert computed("rcp.approx.ftz.f32", small)[:2].tolist() == [np.inf, -np.inf]


def test_special_values_are_those_of_the_instructions():
    odd = np.array([np.nan, -1.0, 0.0, np.inf], np.float32)
    assert computed("max.f32", odd, np.zeros(4, np.float32)).tolist() == [0.0, 0.0, 0.0, np.inf]
    np.testing.assert_equal(computed("rsqrt.approx.f32", odd), [np.nan, np.nan, np.inf, 0.0])
    np.testing.assert_equal(computed("lg2.approx.f32", odd), [np.nan, np.nan, -np.inf, np.inf])
    np.testing.assert_equal(computed("tanh.approx.f32", odd)[[0, 3]], [np.nan, 1.0])
    assert np.isnan(computed("sin.approx.f32", odd)[[0, 3]]).all()


SMUGGLED = (
    "N; mov.b32 $0, 0;", "mov.b32 $0, $1; N;", "N;;", "{ N; }", "@p N;", "@!p N;", "l: N;", "N; // $0", "N; /* */",
    "// \nN;", "N; N;", "N;\n.reg .b32 t;", ".reg .b32 t; N;", "N", "N, $2;", "N|p;", "N;\0", "-N;", "N1;", "",
    "I $0, [$1];", "I $0, %r1;", "I %f0, $1;", "I $0, /* $1; */ $1;", "I $0, $0;", "I $1, $0;", "I $1, $1;",
    "I $0, -$1;", "I $0, 0f3f800000;", "I $0, ${1:n};", "I $0, ${1};", "I $0, $$1;", "I $0;", "I {$0}, $1;", "I$0, $1;",
    "I\u00a0$0, $1;", "I $0, $\u0661;", "I.f32 $0, $1;", "$(I$|lg2.approx.f32$) $0, $1;", "{I|lg2.approx.f32} $0, $1;",
    "EX2.APPROX.F32 $0, $1;", "ex2.approx.f64 $0, $1;", "ex2.approx.sat.f32 $0, $1;", "ex2.f32 $0, $1;",
    "ld.global.f32 $0, [$1];", "mov.b32 $0, $1;",
)  # fmt: skip
CONSTRAINTS = (
    "=f,r", "=r,f", "f,f", "=f", "=f,f,f", "=&f,f", "+f,f", "=f,0", "=f,n", "=f,f,~{memory}", "=f, f", "=f,=f",
    "=f,*f", "=f,f|r", "=l,l", "={f1},f", "",
)  # fmt: skip


@pytest.mark.parametrize("text", SMUGGLED)
def test_no_text_says_anything_besides(text: str):
    """I is the instruction, N all of it but the semicolon."""
    said = re.sub(r"\bI\b", "ex2.approx.f32", re.sub(r"\bN(?=\b|1)", "ex2.approx.f32 $0, $1", text))
    with pytest.raises(NotInterpretable):
        computed("ex2.approx.f32", X, text=said or " ")


@pytest.mark.parametrize(
    "said",
    [
        *({"constraints": constraints} for constraints in CONSTRAINTS),
        *({"dtype": dtype} for dtype in (tl.int32, tl.float16, tl.float64)),
        *({"pack": 2}, {"pack": 4}, {"results": 2}),
    ],
)
def test_the_form_is_the_only_one(said: dict[str, object]):
    with pytest.raises(NotInterpretable, match=r"only as `ex2.approx.f32 \$0, \$1;` with constraints '=f,f', pack=1"):
        computed("ex2.approx.f32", X, **said)


def test_operands_stand_in_their_order():
    for text in ("fma.rn.f32 $0, $2, $1, $3;", "fma.rn.f32 $0, $1, $1, $3;", "fma.rn.f32 $0, $1, $2;"):
        with pytest.raises(NotInterpretable, match="only as"):
            computed("fma.rn.f32", X, Y, Z, text=text)


@pytest.mark.parametrize("text", ["\n    ex2.approx.f32 $0, $1;\n    ", "ex2.approx.f32 \t$0,$1;"])
def test_blanks_say_nothing(text: str):
    np.testing.assert_allclose(computed("ex2.approx.f32", X, text=text), np.exp2(X), rtol=1e-6)


def test_kernels_with_blocks_and_scalars():
    said = "'rsqrt.approx.f32 $0, $1;', '=f,f', [{}], dtype=tl.float32, is_pure={}, pack=1"
    x = torch.tensor(X)
    got = interpret(KERNEL.format(said.format("x", True)), x, Out((4,))).only
    torch.testing.assert_close(got, x.rsqrt())
    got = interpret(KERNEL.format(said.format("tl.sum(x)", False)), x, Out((4,))).only
    torch.testing.assert_close(got, x.sum().rsqrt().repeat(4))
    said = "'fma.rn.f32 $0, $1, $2, $3;', '=f,f,f,f', [x, tl.sum(x), 1.0], dtype=tl.float32, is_pure=True, pack=1"
    torch.testing.assert_close(interpret(KERNEL.format(said), x, Out((4,))).only, x * x.sum() + 1)
    said = "'tanh.approx.f16x2 $0, $1;', '=r,r', [x], dtype=tl.float16, is_pure=True, pack=2"
    got = interpret(KERNEL.format(said), x.half(), Out((4,), torch.float16)).only
    torch.testing.assert_close(got, x.half().tanh(), rtol=2**-10, atol=0)


def test_what_is_not_known_is_named_with_what_is():
    said = "'mov.b32 $0, $1;', '=f,f', [x], dtype=tl.float32, is_pure=True, pack=1"
    reply = interpret(KERNEL.format(said), torch.tensor(X), Out((4,))).reply
    assert reply.outcome == "not_interpretable"
    assert "`mov.b32 $0, $1;`" in reply.reason and "ex2.approx.f32, lg2.approx.f32" in reply.reason


def test_other_vendors_assembly_is_not_known():
    said = "'ex2.approx.f32 $0, $1;', '=f,f', [x], dtype=tl.float32, is_pure=True, pack=1"
    reply = interpret(KERNEL.format(said), torch.tensor(X), Out((4,)), target="gfx942").reply
    assert reply.outcome == "not_interpretable" and "target's inline assembly" in reply.reason


def test_registers_without_a_type_hold_float32_too():
    assert INSTRUCTIONS["tanh.approx.f32"].constraints == ("=f,f", "=r,r")
    assert INSTRUCTIONS["tanh.approx.bf16x2"].constraints == ("=r,r",)


def test_a_text_that_is_not_known_steers_no_terminal():
    source = """
@triton.jit
def kernel(a0, a1):
    text: tl.constexpr = "mov.b32 $0, $1; // \x1b[31mforged\x07"
    tl.store(a1, tl.inline_asm_elementwise(text, "=f,f", [tl.load(a0)], tl.float32, True, 1))
"""
    reply = interpret(source, torch.zeros(1), Out((1,))).reply
    assert reply.outcome == "not_interpretable" and "[31mforged" in reply.reason
    assert reply.reason.isprintable()
