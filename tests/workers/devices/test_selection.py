"""Which plans are executed on which draws."""

from math import prod

from tests.workers.devices.kernels import PLAIN, SOFTMAX, graphs, job_for
from workers.devices.selection import (
    ALL_DRAWS_BYTES,
    LARGEST_BYTES,
    MOST_ROWS,
    ROW_BYTES,
    TOTAL_BYTES,
    SelectedRun,
    contract_bytes,
    cost,
    rows,
    select_cases,
    within,
)
from workers.inputs import DRAWS
from workers.protocol import Buffer, Shape


def stretched(sizes):
    """The bundle's plans and references, as if they were of so many columns a row."""
    shapes = [Shape(dims={"M": 1, "N": columns}) for columns in sizes]
    bundle = job_for(PLAIN).bundle
    plans = tuple(plan.model_copy(update={"shape": shape}) for plan, shape in zip(bundle.plans, shapes, strict=True))
    references = [
        graph.model_copy(update={"shape": shape, "output_shapes": ((1, shape.dims["N"]),)})
        for graph, shape in zip(graphs("softmax"), shapes, strict=True)
    ]
    return bundle.model_copy(update={"plans": plans}), references


def test_small_plans_come_first_and_get_every_draw():
    bundle = job_for(PLAIN).bundle
    cases = select_cases(bundle, graphs("softmax"), SOFTMAX)
    assert [case.plan.shape.key for case in cases] == ["M=1,N=1", "M=37,N=129", "M=64,N=128"]
    assert all(case.draws == tuple(DRAWS) and case.graph.shape.key == case.plan.shape.key for case in cases)
    assert [plan.shape.key for plan in bundle.benchmarks] == ["M=2048,N=1024"]


def test_inputs_and_results_count_and_the_rows_of_these():
    for graph in graphs("softmax"):
        height, columns = graph.output_shapes[0]
        assert contract_bytes(SOFTMAX, graph) == 2 * 2 * prod((height, columns))
        assert cost(SOFTMAX, graph) == contract_bytes(SOFTMAX, graph) + ROW_BYTES * height


def test_a_value_per_row_of_an_input_is_a_row_and_one_per_column_is_not():
    graph = graphs("softmax")[0].model_copy(update={"shape": Shape(dims={"M": MOST_ROWS + 1, "N": 5})})
    for shape, expected in [((MOST_ROWS + 1,), MOST_ROWS + 1), ((5,), 1), ((), 1), ((5, MOST_ROWS + 1), 5)]:
        assert rows(SOFTMAX, graph.model_copy(update={"output_shapes": (shape,)})) == expected


def test_larger_plans_share_the_draws():
    columns = ALL_DRAWS_BYTES // 4
    cases = select_cases(*stretched(columns * (index + 1) for index in range(4)), SOFTMAX)
    assert len(cases) == 4 and cases[0].draws == tuple(DRAWS), "of several large plans, one sees every draw"
    assert all(len(case.draws) == 2 and case.draws[0] == "normal" for case in cases[1:])
    assert len({case.draws[1] for case in cases[1:]}) == len(cases) - 1


def test_there_is_a_limit():
    bundle, references = stretched([LARGEST_BYTES] * 4)
    assert select_cases(bundle, references, SOFTMAX) == []
    bundle, references = stretched([(LARGEST_BYTES - ROW_BYTES) // 4] * 4)
    assert len(select_cases(bundle, references, SOFTMAX)) == 2, "all draws together have one, too"


def test_the_smallest_plan_may_be_larger():
    bundle, references = stretched([LARGEST_BYTES // 4] * 4)
    (case,) = select_cases(bundle, references, SOFTMAX)
    assert case.cost > LARGEST_BYTES and len(case.draws) == 2
    bundle, references = stretched([TOTAL_BYTES // 8] * 4)
    assert select_cases(bundle, references, SOFTMAX) == []


def test_no_plan_is_left_out_for_memory_of_its_own():
    bundle = job_for(PLAIN).bundle
    greedy = tuple(
        plan.model_copy(update={"buffers": (*plan.buffers, Buffer(id=len(plan.buffers), bytes=3 * 2**30))})
        for plan in bundle.plans
    )
    cases = select_cases(bundle.model_copy(update={"plans": greedy}), graphs("softmax"), SOFTMAX)
    assert [case.plan.shape.key for case in cases] == ["M=1,N=1", "M=37,N=129", "M=64,N=128"]


def test_as_many_as_come_to_no_more_are_within():
    (plan, *_), (graph, *_) = job_for(PLAIN).bundle.plans, graphs("softmax")
    cases = [SelectedRun(plan, graph, ("normal", "heavy"), size) for size in (30, 10, 20)]
    assert [case.cost for case in within(cases, 60)] == [10, 20]
    assert within(cases, 19) == []


def test_plans_without_a_reference_are_left_out():
    bundle = job_for(PLAIN).bundle
    assert len(select_cases(bundle, graphs("softmax")[:1], SOFTMAX)) == 1


def test_many_rows_are_executed_only_if_nothing_is_smaller():
    bundle, references = stretched(range(4, 4 + len(job_for(PLAIN).bundle.plans)))
    many = [
        references[0],
        *(each.model_copy(update={"output_shapes": ((MOST_ROWS + 1, 1),)}) for each in references[1:]),
    ]
    operator = job_for(PLAIN).operator
    assert [case.graph for case in select_cases(bundle, many, operator)] == many[:1]
    assert [case.graph for case in select_cases(bundle, many[1:], operator)] == many[1:2]
