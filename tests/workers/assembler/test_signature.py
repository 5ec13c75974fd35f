import pytest

from tests.workers.assembler.plans import pointer
from workers.assembler.machine import EntryParameter
from workers.assembler.refusal import AssemblyRefused
from workers.assembler.signature import check_launch
from workers.protocol import Launch, Number, Pointer

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
