import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import module
from tests.workers.assembler.plans import RMSNORM, pointer
from workers.assembler.launch_checks import check_launch, check_precision
from workers.assembler.machine import EntryParameter, InstructionMix
from workers.assembler.ptx.mix import read_mix
from workers.assembler.ptx.parser import parse
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Launch, Number, Operator, Outcome, Pointer, Precision

ADDRESS, SCRATCH = EntryParameter(8, "pointer"), (EntryParameter(8, "pointer"), EntryParameter(8, "bits"))
INT, FLOAT, HALF, LONG = (
    EntryParameter(4, "bits"),
    EntryParameter(4, "float"),
    EntryParameter(2, "bits"),
    EntryParameter(8, "bits"),
)


def number(kind: str, value: float = 1) -> Number:
    return Number.model_validate({"type": kind, "value": value})


def launch(*arguments: Pointer | Number) -> Launch:
    return Launch(kernel="0" * 64, grid=(1, 1, 1), arguments=arguments, function="f", line=5)


@pytest.mark.parametrize(
    ("argument", "parameter"),
    [
        (pointer(0, 4), ADDRESS),
        (pointer(0, 4), LONG),
        (number("i32"), INT),
        (number("fp32"), FLOAT),
        (number("fp32"), INT),
        (number("fp16"), HALF),
        (number("bf16"), HALF),
        (number("i64"), LONG),
        (number("i1"), EntryParameter(1, "bits")),
        (number("fp64"), EntryParameter(8, "float")),
    ],
)
def test_what_the_entry_takes_may_be_passed(argument: Pointer | Number, parameter: EntryParameter) -> None:
    item = launch(argument)
    check_launch(item, (parameter, *SCRATCH))
    assert item.arguments == (argument,)


@pytest.mark.parametrize(
    ("argument", "parameter"),
    [
        (pointer(0, 4), INT),
        (pointer(0, 4), EntryParameter(8, "float")),
        (number("i64"), ADDRESS),
        (number("i64"), INT),
        (number("i32"), FLOAT),
        (number("fp32"), HALF),
        (number("fp64"), FLOAT),
    ],
)
def test_anything_else_may_not(argument: Pointer | Number, parameter: EntryParameter) -> None:
    with pytest.raises(AssemblyRefused, match="argument 0 of 'f'") as caught:
        check_launch(launch(argument), (parameter, *SCRATCH))
    assert caught.value.line == 5


@pytest.mark.parametrize("parameters", [(), (INT,), (INT, *SCRATCH, ADDRESS), SCRATCH, (INT, ADDRESS, INT)])
def test_the_count_must_agree_and_end_with_two_scratch_pointers(parameters: tuple[EntryParameter, ...]) -> None:
    with pytest.raises(AssemblyRefused, match="scratch"):
        check_launch(launch(number("i32")), parameters)


LAUNCH = Launch(kernel="0" * 64, function="f", grid=(1, 1, 1), arguments=(), line=5)
EXACT = RMSNORM.model_copy(update={"precision": Precision(accumulate="float64")})
BYTES = RMSNORM.model_copy(update={"inputs": (RMSNORM.inputs[0].model_copy(update={"dtype": "float8_e4m3fn"}),)})
INSIDE = RMSNORM.model_copy(update={"reference": RMSNORM.reference + "\n# y.to(torch.float8_e5m2)\n"})


def mix(body: str) -> InstructionMix:
    return read_mix(parse(module(body)).functions)


@pytest.mark.parametrize(
    ("body", "operator"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r1};", RMSNORM),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1}, {%r2}, {%r3}, {%r1};", RMSNORM),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1}, %rd1, %rd2, %p1, 1, 1, 0, 0;", RMSNORM),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%r1}, {%r2}, {%r3}, {%r1};", RMSNORM),
        ("wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {%r1}, [%rd1];", RMSNORM),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;", RMSNORM),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd1}, {%rd2}, {%rd3}, {%rd1};", EXACT),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%r1}, {%r2}, {%r3}, {%r1};", BYTES),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1}, {%r2}, {%r3}, {%r1};", INSIDE),
        ("mul.f16 %r1, %r2, %r3;", RMSNORM),
    ],
)
def test_what_the_contract_has_may_be_multiplied_and_added(body: str, operator: Operator) -> None:
    found = mix(body)
    check_precision(LAUNCH, found, operator)
    assert found.instructions["matrix"] == (not body.startswith("mul"))


@pytest.mark.parametrize(
    ("body", "operator", "said"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1}, {%r2}, {%r3}, {%r1};", RMSNORM, "accumulate in f16"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1}, %rd1, %rd2, %p1, 1, 1, 0, 0;", RMSNORM, "in f16,"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32 {%r1}, {%r2}, {%r3}, {%r1};", RMSNORM, "accumulate in f16"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1}, {%r2}, {%r3}, {%r1};", EXACT, "accumulate in f32"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%r1}, {%r2}, {%r3}, {%r1};", RMSNORM, "e4m3 and e5m2"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%r1}, {%r2}, {%r3}, {%r1};", RMSNORM, "multiply s8 and u8"),
        ("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1}, %rd1, %rd2, %p1;", RMSNORM, "multiply s8"),
        ("tcgen05.mma.cta_group::1.kind::f8f6f4 [%r1], %rd1, %rd2, %r2, %p1;", RMSNORM, "multiply f8f6f4"),
        ("dp4a.s32.s32 %r1, %r2, %r3, %r1;", RMSNORM, "multiply s8"),
    ],
)
def test_fewer_bits_may_not(body: str, operator: Operator, said: str) -> None:
    with pytest.raises(AssemblyRefused, match=said) as caught:
        check_precision(LAUNCH, mix(body), operator)
    assert (caught.value.outcome, caught.value.line) == (Outcome.PRECISION, 5)


def test_types_are_those_of_real_kernels() -> None:
    found = {name: read_mix(parse(compiled(name).assembly).functions) for name in ("matmul", "small_matmul", "rmsnorm")}
    assert {name: (mix.sums, mix.factors) for name, mix in found.items()} == {
        "matmul": ({"f32"}, {"bf16"}),
        "small_matmul": ({"f32"}, {"bf16"}),
        "rmsnorm": (frozenset(), frozenset()),
    }
