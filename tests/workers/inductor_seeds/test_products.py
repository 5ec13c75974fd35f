"""Matrix products as plain tiles compute the same numbers; kernels that are not understood stay."""

import ast
import textwrap

import pytest

from tests.workers.inductor_seeds.interpreted import interpreted
from workers.inductor_seeds.products import ParameterUse, flatten, put_matrices_last
from workers.inductor_seeds.runtime import replace_runtime
from workers.inductor_seeds.simplification import simplify

KERNEL = """
def kernel(in_ptr0, in_ptr1, out_ptr0, ks0, ks1, ynumel, xnumel, r0_numel, YBLOCK: C, XBLOCK: C, R0_BLOCK: C):
    yoffset = (tl.program_id(1) + tl.program_id(2) * tl.num_programs(1)).to(tl.int64) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None, None].to(tl.int64)
    ymask = yindex < ynumel
    xoffset = tl.program_id(0).to(tl.int64) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :, None].to(tl.int64)
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, None, :].to(tl.int64)
    y0 = yindex
    x1 = xindex
    _tmp10 = tl.full([YBLOCK, XBLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        r0_2 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_2 + ks0*y0), r0_mask & ymask, other=0.0).to(tl.float32)
        tmp2 = tl.load(in_ptr1 + (x1 + ks1*r0_2), r0_mask & xmask, other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float16)
        tmp3 = tmp2.to(tl.float16)
        tmp4 = tl.where(r0_mask, tmp1, 0)
        tmp5 = tl.where(r0_mask, tmp3, 0)
        tmp6 = tl.reshape(tmp4, [YBLOCK, R0_BLOCK])
        tmp7 = tl.trans(tl.reshape(tmp5, [XBLOCK, R0_BLOCK]))
        tmp8 = tl.dot(tmp6, tmp7, input_precision="ieee")
        tmp9 = tl.broadcast_to(tmp8, [YBLOCK, XBLOCK])
        tmp11 = _tmp10 + tmp9
        _tmp10 = tmp11
    tmp10 = _tmp10[:,:,None]
    tl.store(out_ptr0 + (x1 + ks1*y0), tmp10, xmask & ymask)
"""
PLAIN = """
rows = tl.program_id(1) * YBLOCK + tl.arange(0, YBLOCK)
cols = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
_tmp10 = tl.zeros((YBLOCK, XBLOCK), dtype=tl.float32)
for r0_offset in tl.range(0, ks0, R0_BLOCK):
    inner = r0_offset + tl.arange(0, R0_BLOCK)
    tmp0 = tl.load(in_ptr0 + rows[:, None] * ks0 + inner[None, :], LEFT, other=0.0)
    tmp2 = tl.load(in_ptr1 + inner[:, None] * ks1 + cols[None, :], RIGHT, other=0.0)
    _tmp10 = tl.dot(tmp0, tmp2, _tmp10, input_precision='ieee')
tl.store(out_ptr0 + rows[:, None] * ks1 + cols[None, :], _tmp10, mask=(rows[:, None] < ynumel) & (cols[None, :] < ks1))
"""
PLAIN = PLAIN.replace("LEFT", "mask=(rows[:, None] < ynumel) & (inner[None, :] < ks0)")
PLAIN = PLAIN.replace("RIGHT", "mask=(inner[:, None] < ks0) & (cols[None, :] < ks1)")
PASSED = {"in_ptr0": "a", "in_ptr1": "b", "out_ptr0": "c", "ks0": "K", "ks1": "N", "ynumel": "M", "xnumel": "N"}
PASSED |= {"r0_numel": "K"}
DTYPES = {"in_ptr0": "tl.float16", "in_ptr1": "tl.float16"}
SMALL = {"in_ptr0", "in_ptr1", "out_ptr0"}


def flattened(text: str = KERNEL, *, dtypes=DTYPES, small=SMALL, short=True, passed=PASSED) -> tuple[bool, str]:
    """Return True if a kernel was understood, and its lines afterwards."""
    function = ast.parse(text).body[0]
    simplify(replace_runtime(function))
    done = flatten(function, ParameterUse(passed, dtypes, small, short=short))
    simplify(function)
    ast.fix_missing_locations(function)
    return done, textwrap.dedent("\n".join(ast.unparse(function).splitlines()[1:]))


def test_a_product_is_what_a_person_writes():
    assert flattened() == (True, PLAIN.strip())


def test_a_tile_whose_rows_are_the_other_axis_is_loaded_so_and_turned():
    done, text = flattened(KERNEL.replace("x1 + ks1*r0_2", "r0_2 + ks0*x1"))
    assert done
    assert "in_ptr1 + cols[:, None] * ks0 + inner[None, :], mask=(cols[:, None] < ks1) & (inner[None, :] < ks0)" in text
    assert "tl.dot(tmp0, tl.trans(tmp2), _tmp10" in text


def test_a_tensor_that_may_be_large_is_addressed_with_64_bits():
    _, text = flattened(small={"in_ptr1", "out_ptr0"})
    assert "in_ptr0 + rows[:, None].to(tl.int64) * ks0 + inner[None, :]" in text
    assert text.count("int64") == 1


def test_many_tiles_are_dealt_over_two_axes_of_the_grid():
    _, text = flattened(short=False)
    assert "rows = (tl.program_id(1) + tl.program_id(2) * tl.num_programs(1)) * YBLOCK + tl.arange(0, YBLOCK)" in text


def test_a_cast_that_is_no_way_back_stays():
    _, text = flattened(dtypes=DTYPES | {"in_ptr0": "tl.float32"})
    assert "tl.dot(tmp0.to(tl.float16), tmp2, _tmp10" in text


def test_a_bias_is_one_dimensional_until_it_is_added():
    load = "    tmp12 = tl.load(in_ptr1 + (x1), xmask)\n    tl.store"
    done, text = flattened(KERNEL.replace("    tl.store", load).replace("tmp10, xmask", "tmp10 + tmp12, xmask"))
    assert done
    assert "tmp12 = tl.load(in_ptr1 + cols, mask=cols < ks1, other=0.0)" in text
    assert "_tmp10 + tmp12[None, :], mask=" in text


def test_a_size_that_the_host_passes_as_a_number_is_the_parameter():
    fixed = KERNEL.replace("    yoffset", "    xnumel = 64\n    yoffset", 1).replace("ks1*", "64*")
    done, text = flattened(fixed, passed=PASSED | {"xnumel": "64"})
    assert done
    assert "out_ptr0 + rows[:, None] * xnumel + cols[None, :]" in text


def test_what_is_computed_of_an_operand_keeps_its_choice():
    done, text = flattened(KERNEL.replace("tmp1 = tmp0.to(tl.float16)", "tmp1 = tl.exp(tmp0).to(tl.float16)"))
    assert done
    assert "tl.where(inner[None, :] < ks0, tl.exp(tmp0.to(tl.float32)).to(tl.float16), 0)" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tmp9 = tl.broadcast_to(tmp8, [YBLOCK, XBLOCK])", "tmp9 = tl.sum(tmp8, 1)[:, None]"),
        ("[:, None, None]", "[None, :, None]"),
        ("yindex < ynumel", "yindex <= ynumel"),
        ("tmp7 = tl.trans(tl.reshape(tmp5, [XBLOCK, R0_BLOCK]))", "tmp7 = tl.reshape(tmp5, [R0_BLOCK, XBLOCK])[0]"),
        ("tmp1 = tmp0", "tmp1 = tl.sort(tmp0)"),
        ("tmp10, xmask & ymask", "tmp10, xmask & ymask, cache_modifier='.cs'"),
        ("_tmp10[:,:,None]", "_tmp10[:,:,None] + r0_base"),
        ("    yoffset", "    ynumel = 3\n    yoffset"),
    ],
)
def test_what_is_not_understood_stays_as_it_is(old, new):
    assert old in KERNEL
    changed = KERNEL.replace(old, new, 1)
    function = ast.parse(changed).body[0]
    before = ast.unparse(function)
    assert not flatten(function, ParameterUse(PASSED, DTYPES, SMALL, short=True))
    assert ast.unparse(function) == before


def test_a_kernel_without_a_product_is_none_of_its_business():
    assert flattened("def kernel(p):\n    tl.store(p, 1)\n")[0] is False


def test_a_flattened_product_gives_what_the_text_before_gives(tmp_path):
    done, body = flattened()
    assert done
    head = KERNEL.strip().splitlines()[0]
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    before = KERNEL.strip().replace(": C", ": tl.constexpr")
    head = head.replace(": C", ": tl.constexpr").replace("def kernel", "def plain")
    kernels = f"@triton.jit\n{before}\n\n@triton.jit\n{head}\n{indented}\n"
    launch = """
a, b = torch.randn(37, 21, dtype=torch.float16), torch.randn(21, 50, dtype=torch.float16)
found = [torch.full((37, 50), 7.0) for _ in range(2)]
for kernel, c, grid in ((kernel, found[0], (4, 3, 1)), (plain, found[1], (4, 3))):
    kernel[grid](a, b, c, 21, 50, 37, 50, 21, YBLOCK=16, XBLOCK=16, R0_BLOCK=16)
print(json.dumps([torch.equal(*found), torch.allclose(found[1], a.float() @ b.float(), atol=1e-2)]))
"""
    assert interpreted(kernels + launch, tmp_path) == [True, True]


def test_matrices_are_put_last_in_the_grid():
    code = "def kernel(x):\n    z = tl.program_id(0)\n    y = tl.program_id(1)\n    x = tl.program_id(2)"
    function = ast.parse(code).body[0]
    put_matrices_last(function)
    assert ast.unparse(function) == code.replace("(0)", "(9)").replace("(2)", "(0)").replace("(9)", "(2)")
