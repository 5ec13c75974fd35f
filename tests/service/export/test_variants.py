"""Functions: what Triton may assume of their arguments, within a budget of compiled kernels."""

from service.export.variants import (
    MAX_COMPILED,
    ExportedFunction,
    buffers_in,
    choose_functions,
    divisible,
    exact_functions,
    functions_in,
    ones,
    places_in,
    variable,
    variant_name,
)
from tests.service.export.pieces import traced
from tests.workers.protocol.test_symbolic import BODY
from workers.protocol import SymbolicPlan

LAUNCH = BODY["steps"][2]
POINTER = LAUNCH["arguments"][0]


def plan(at: int = 0, low: int = 1, high: int = 10**6) -> SymbolicPlan:
    """A plan with two sizes as arguments, their product, and a constant."""
    numbers = ["M", "N", ["*", "M", "N"], 48]
    arguments = [POINTER, *({"kind": "number", "type": "i32", "value": value} for value in numbers)]
    launch = {**LAUNCH, "arguments": arguments, "parameters": ["x", "m", "n", "mn", "c"], "constants": {"BLOCK": at}}
    steps = [*BODY["steps"][:2], launch]
    return SymbolicPlan.model_validate({**BODY, "cases": [[[">=", "N", low], ["<=", "N", high]]], "steps": steps})


def names(function: ExportedFunction) -> set[str]:
    return {name for _, name in function.assumed}


def test_of_the_functions_that_admit_a_shape_the_one_that_assumes_most_is_first() -> None:
    shapes = [{"M": m, "N": n} for m, n in ((16, 32), (16, 32), (7, 32), (7, 5), (16, 5))]
    functions = choose_functions([plan()], shapes)
    assert [names(each) for each in functions] == [{"m", "n", "mn"}, {"m", "mn"}, {"mn", "n"}, set()]
    for sizes in (*shapes, {"M": 4, "N": 4}, {"M": 1, "N": 1}):
        function = next(each for each in functions if each.admits(sizes))
        assert function.assumed <= divisible(plan(), sizes)
    assert [variable(plan())[0, name] for name in ("m", "n")] == ["M", "N"] and (0, "c") not in variable(plan())


def test_what_is_not_assumed_is_not_specialised() -> None:
    function = ExportedFunction(plan(), frozenset({(0, "n")}))
    step = function.plan.launches[0]
    assert function.unspecialised(step) == ("m", "mn") and function.launched(step) == "kernel__any_m__any_mn"
    assert variant_name("kernel", ()) == "kernel" and [str(each) for each in function.conditions] == [
        "['==', ['%', 'N', 16], 0]"
    ]
    own = ExportedFunction(plan(), frozenset(), own=True)
    assert own.launched(step) == "kernel" and own.conditions == ()


def test_arguments_that_are_often_1_get_functions_in_which_triton_knows_that() -> None:
    few = [{"M": 1, "N": 5}, *({"M": m, "N": 5} for m in range(2, 22))]
    assert not any(each.ones for each in choose_functions([plan()], few)), "1 of 21 is too few"
    shapes = [{"M": 1, "N": 32}, {"M": 1, "N": 5}, {"M": 7, "N": 32}, {"M": 7, "N": 5}]
    functions = choose_functions([plan()], shapes)
    found = [(names(each), {name for _, name in each.ones}) for each in functions]
    assert found == [({"mn", "n"}, {"m"}), ({"mn", "n"}, set()), (set(), {"m"}), (set(), set())]
    assert [at for at, each in enumerate(functions) if each.admits({"M": 1, "N": 48})] == [0, 1, 2, 3]
    assert [at for at, each in enumerate(functions) if each.admits({"M": 2, "N": 48})] == [1, 3]
    first = functions[0]
    assert first.unspecialised(first.plan.launches[0]) == () and "['==', 'M', 1]" in map(str, first.conditions)
    assert functions[2].unspecialised(first.plan.launches[0]) == ("n", "mn")
    assert len(frozenset[object]().union(*(each.kernels for each in functions))) == 4
    assert ones(plan(), {"M": 1, "N": 1}) == {(0, "m"), (0, "n"), (0, "mn")} and not ones(plan(), {"M": 2, "N": 3})


def test_parts_of_tuples_are_specialised_and_guarded() -> None:
    arguments = [POINTER, *({"kind": "number", "type": "i32", "value": value} for value in ("M", "N"))]
    launch = {**LAUNCH, "arguments": arguments, "parameters": ["x", "n.0", "n.1"], "constants": {"n.2": 1}}
    told = SymbolicPlan.model_validate({**BODY, "cases": [[]], "steps": [*BODY["steps"][:2], launch]})
    functions = choose_functions([told], [{"M": 16, "N": 7}, {"M": 5, "N": 7}])
    assert [names(each) for each in functions] == [{"n.0"}, set()]
    assert not any(each.unspecialised(told.launches[0]) for each in functions)
    served = {
        (m, n): [at for at, each in enumerate(functions) if each.admits({"M": m, "N": n})]
        for m, n in ((32, 7), (5, 9), (32, 16), (32, 1), (1, 9), (7, 32))
    }
    assert served == {(32, 7): [0], (5, 9): [1], (32, 16): [], (32, 1): [], (1, 9): [], (7, 32): []}


def test_kernels_are_counted_and_the_most_wanted_shapes_served() -> None:
    plans = [plan(at, 100 * at, 100 * at + 99) for at in range(2 * MAX_COMPILED)]
    shapes = [{"M": 3, "N": 100 * at + 1} for at in range(len(plans)) for _ in range(1 + at // 100)]
    functions = choose_functions(plans, shapes)
    assert len(set().union(*(each.kernels for each in functions))) == MAX_COMPILED == len(functions)
    served = {at for at in range(len(plans)) if any(each.admits({"M": 3, "N": 100 * at + 1}) for each in functions)}
    assert set(range(100, len(plans))) <= served
    assert choose_functions(plans, []) == []


def test_a_plan_of_one_shape_keeps_its_kernel() -> None:
    bundle = traced()
    small, large = exact_functions(bundle.plans)
    assert large.admits({"N": 1024}) and not large.admits({"N": 1023}) and small.own
    given = {"num_warps": 2, "num_stages": 3, "num_ctas": 1}
    assert large.plan.launches[0].options == given, "as triton.autotune gave them"
    assert functions_in(large.plan) == {"double_kernel", "_scale"}
    assert [len(places_in(step)) for step in large.plan.steps[:4]] == [0, 0, 1, 3]
    assert buffers_in(large.plan.steps[3]) == {0, 2, 3}
