"""Symbolic plans: made into plans that pass every check of a plan, and likened to traced ones."""

import pytest
from pydantic import ValidationError

from workers.protocol import Launch, Number, Plan, Pointer, Shape, SymbolicPlan
from workers.protocol.symbolic import MAX_CASES, MAX_PLAN_TERMS, UNKNOWN_KERNEL

BODY = {
    "cases": [[["<=", "N", 64]]],
    "buffers": [{"id": 0, "bytes": ["*", "N", 4], "input": 0}, {"id": 1, "bytes": ["*", 4, "N"]}],
    "steps": [
        {"op": "allocate", "buffer": 1},
        {
            "op": "fill",
            "target": {"buffer": 1, "shape": ["N"], "strides": [1], "dtype": "float32"},
            "value": 0.0,
        },
        {
            "op": "launch",
            "grid": [["//", ["+", "N", 31], 32], 1, 1],
            "arguments": [
                {"kind": "pointer", "buffer": 0, "offset_bytes": 0, "extent_bytes": ["*", "N", 4], "dtype": "float32"},
                {"kind": "number", "type": "i32", "value": "N"},
            ],
            "function": "kernel",
            "parameters": ["x", "n"],
            "constants": {"BLOCK": 32},
        },
    ],
    "outputs": [{"buffer": 1, "shape": ["N"], "strides": [1], "dtype": "float32"}],
}


def symbolic(**changes: object) -> SymbolicPlan:
    return SymbolicPlan.model_validate({**BODY, **changes})


def traced(size: int, *, grid: int) -> Plan:
    """A plan as a trace makes it; Triton takes an argument that is 1 for a constant."""
    pointer = Pointer(buffer=0, offset_bytes=0, extent_bytes=4 * size, dtype="float32")
    number = Number(type="i32", value=size)
    launch = Launch(
        kernel="a" * 64,
        grid=(grid, 1, 1),
        arguments=(pointer,) if size == 1 else (pointer, number),
        function="kernel",
        parameters=("x",) if size == 1 else ("x", "n"),
        constants={"n": 1, "BLOCK": 32} if size == 1 else {"BLOCK": 32},
    )
    made = symbolic().at(Shape(dims={"N": size}))
    return made.model_copy(update={"steps": (*made.steps[:2], launch)})


def test_it_makes_the_plan_of_every_shape_that_it_admits() -> None:
    plan = SymbolicPlan.model_validate_json(symbolic().model_dump_json())
    assert [size for size in range(1, 130) if plan.admits({"N": size})] == list(range(1, 65))
    for size in (1, 32, 33, 64):
        made = plan.at(Shape(dims={"N": size}))
        assert made.launches[0].kernel == UNKNOWN_KERNEL and made.buffers[0].bytes == 4 * size
        assert made == plan.likened(traced(size, grid=-(-size // 32)))
        assert made != plan.likened(traced(size, grid=-(-size // 32) + 1))


def test_a_plan_with_other_steps_or_arguments_is_not_likened() -> None:
    plan = traced(5, grid=1)
    with pytest.raises(ValueError, match="the steps are others"):
        symbolic().likened(plan.model_copy(update={"steps": plan.steps[1:]}))
    launch = plan.launches[0]
    for changes in ({"parameters": ("x", "k")}, {"parameters": ("x",), "arguments": launch.arguments[:1]}):
        other = plan.model_copy(update={"steps": (*plan.steps[:2], launch.model_copy(update=changes))})
        with pytest.raises(ValueError, match="no argument 'n'"):
            symbolic().likened(other)


def test_a_shape_without_a_plan_is_refused() -> None:
    outside = symbolic(outputs=[{**BODY["outputs"][0], "shape": [["+", "N", 1]]}])
    with pytest.raises(ValidationError, match="beyond its end"):
        outside.at(Shape(dims={"N": 4}))
    halves = symbolic(outputs=[{**BODY["outputs"][0], "shape": [["/", "N", 2]]}])
    with pytest.raises(ValueError, match="no whole number"):
        halves.at(Shape(dims={"N": 4}))
    with pytest.raises(ValueError, match="no size 'N'"):
        symbolic().at(Shape(dims={"M": 4}))
    assert not symbolic().admits({"M": 4}), "a guard without a value does not hold"


def test_traces_that_do_the_same_are_cases_of_one_plan() -> None:
    other = symbolic(cases=[[["==", "N", 100]]])
    both = symbolic().merged(other)
    assert both is not None and [size for size in (64, 65, 100) if both.admits({"N": size})] == [64, 100]
    assert symbolic().merged(symbolic(outputs=[])) is None
    full = symbolic(cases=[[["==", "N", at]] for at in range(MAX_CASES)])
    assert full.merged(other) is None and full.merged(full) == full


def test_hostile_plans_are_refused() -> None:
    wide: object = "N"
    for _ in range(7):
        wide = ["+", wide, wide]
    many = [{"id": at, "bytes": wide} for at in range(MAX_PLAN_TERMS // 200)]
    launch = BODY["steps"][2]
    for changes, reason in (
        ({"buffers": many}, "more than"),
        ({"steps": [{**launch, "parameters": ["x"]}]}, "parameters"),
        ({"steps": [{**launch, "grid": ["__import__('os')", 1, 1]}]}, "no name of a size"),
        ({"cases": []}, "at least 1"),
    ):
        with pytest.raises(ValidationError, match=reason):
            symbolic(**changes)
