"""Bundles that lie, each in one way: what an honest trace gave, with one claim changed."""

from functools import cache

import pytest

from tests.workers.tracer.jobs import candidate, job, operator, shape, traced
from workers.protocol import Allocate, Bundle, Copy, Fill, Launch, Outcome, Plan, Policy, TraceJob, View
from workers.trace_job import overlap
from workers.trace_job.claims import UnfoundedClaim, check_bundle

JOB = job(candidate(), shapes=(shape(M=64, N=128),))


@cache
def honest() -> Bundle:
    reply = traced(candidate())
    return Bundle(target="sm_90", operator=JOB.operator.digest, kernels=reply.kernels, plans=reply.variants[0].plans)


def changed(**changes) -> Bundle:
    """The honest bundle with other fields in its only plan."""
    plan = honest().plans[0]
    return honest().model_copy(update={"plans": (plan.model_copy(update=changes),)})


def fault(bundle: Bundle, of: TraceJob = JOB) -> tuple[Outcome, str]:
    with pytest.raises(UnfoundedClaim) as unfounded:
        check_bundle(bundle, of)
    return unfounded.value.outcome, unfounded.value.reason


def plan() -> Plan:
    return honest().plans[0]


def launch() -> Launch:
    return plan().launches[0]


def test_an_honest_bundle_passes():
    assert check_bundle(honest(), JOB) is None


def with_buffer(number, **changes):
    buffers = list(plan().buffers)
    buffers[number] = buffers[number].model_copy(update=changes)
    return changed(buffers=tuple(buffers))


whole = View(buffer=2, shape=(64, 128), strides=(128, 1), dtype="float32")
source = whole.model_copy(update={"buffer": 0})
allocate = Allocate(buffer=2)

LIES = {
    "another shape": (lambda: changed(shape=shape(M=32, N=128)), "job's shapes"),
    "another role": (lambda: changed(shape=plan().shape.model_copy(update={"weight": 5.0})), "job's shapes"),
    "a larger input": (lambda: with_buffer(0, bytes=2**20), "not those of the operator"),
    "inputs in another order": (lambda: with_buffer(0, input=1), "not those of the operator"),
    "a missing input": (lambda: with_buffer(1, input=None), "not those of the operator"),
    "one input more": (lambda: with_buffer(2, input=2), "claims to be one"),
    "an enormous buffer": (lambda: changed(buffers=tuple(huge())), "the target's card has"),
    "no launch": (lambda: changed(steps=(allocate,)), "launches no kernel"),
    "no allocation": (lambda: changed(steps=(launch(),)), "before it is allocated"),
    "allocation too late": (lambda: changed(steps=(launch(), allocate)), "before it is allocated"),
    "two allocations": (lambda: changed(steps=(allocate, allocate, launch())), "allocated twice"),
    "an input allocated": (lambda: changed(steps=(Allocate(buffer=0), allocate, launch())), "allocated twice"),
    "an allocation of nothing": (lambda: changed(steps=(Allocate(buffer=9), allocate, launch())), "not at all"),
    "a fill before": (
        lambda: changed(steps=(Fill(target=whole, value=0), allocate, launch())),
        "before it is allocated",
    ),
    "no output": (lambda: changed(outputs=()), "number and dtypes"),
    "another dtype": (lambda: changed(outputs=(whole.model_copy(update={"dtype": "int32"}),)), "number and dtypes"),
    "an input as output": (lambda: changed(outputs=(source,)), "memory of input 'x'"),
    "an output that nothing writes": (lambda: changed(steps=(allocate, without_output())), "nothing writes output 'y'"),
}


def huge():
    yield from plan().buffers
    for number in range(3, 12):
        yield plan().buffers[2].model_copy(update={"id": number, "bytes": 32 * 2**30})


def without_output():
    return launch().model_copy(
        update={"arguments": (*launch().arguments[:2], launch().arguments[1], launch().arguments[3])}
    )


@pytest.mark.parametrize(("lie", "said"), LIES.values(), ids=LIES)
def test_lies_are_found(lie, said):
    assert said in fault(lie())[1]


def test_wrong_outputs_have_an_outcome_of_their_own():
    assert fault(changed(outputs=()))[0] is Outcome.WRONG_OUTPUT_TYPE


def test_a_kernel_is_what_its_name_says():
    (digest, kernel) = next(iter(honest().kernels.items()))
    other = kernel.model_copy(update={"num_warps": 8})
    assert "does not match its digest" in fault(honest().model_copy(update={"kernels": {digest: other}}))[1]


def test_copies_need_the_policy():
    copying = changed(steps=(allocate, Copy(source=source, target=whole), launch()))
    assert fault(copying)[0] is Outcome.FORBIDDEN_OP
    allowed = JOB.model_copy(update={"operator": operator(policy=Policy(host="copy").model_dump())})
    assert check_bundle(copying, allowed) is None


def test_copies_keep_the_shape():
    allowed = JOB.model_copy(update={"operator": operator(policy=Policy(host="copy").model_dump())})
    smaller = whole.model_copy(update={"shape": (32, 128)})
    assert (
        "different shapes"
        in fault(changed(steps=(allocate, Copy(source=source, target=smaller), launch())), allowed)[1]
    )


def test_outputs_do_not_share_memory():
    two = [{"name": "y", "dtype": "float32"}, {"name": "z", "dtype": "float32"}]
    of = JOB.model_copy(update={"operator": operator(outputs=two)})
    lower = whole.model_copy(update={"shape": (33, 128)})
    upper = whole.model_copy(update={"shape": (32, 128), "offset_bytes": 32 * 128 * 4})
    assert "shares memory" in fault(changed(outputs=(lower, upper)), of)[1]
    assert check_bundle(changed(outputs=(lower.model_copy(update={"shape": (32, 128)}), upper)), of) is None


def in_place(**outputs_of_x: str) -> TraceJob:
    first = {"name": "x", "shape": ["M", "N"], "dtype": "float32", "mutable": True}
    rest = [item.model_dump() for item in operator().inputs[1:]]
    outputs = [{"name": name, "dtype": "float32"} for name in outputs_of_x]
    return JOB.model_copy(update={"operator": operator(inputs=[first, *rest], outputs=outputs)})


def test_the_content_of_an_input_is_all_of_its_memory():
    mine = whole.model_copy(update={"buffer": 0})
    part = mine.model_copy(update={"shape": (63, 128)})
    turned = mine.model_copy(update={"shape": (128, 64), "strides": (1, 128)})
    for name in ("x", "y"):
        assert "is a part of input 'x'" in fault(changed(outputs=(part,)), in_place(**{name: ""}))[1]
        assert "is a part of input 'x'" in fault(changed(outputs=(turned,)), in_place(**{name: ""}))[1]
    assert "this is other memory" in fault(changed(outputs=(whole,)), in_place(x=""))[1]
    assert check_bundle(changed(outputs=(mine,)), in_place(x="")) is None


def test_outputs_may_lie_between_each_other():
    two = [{"name": "y", "dtype": "float32"}, {"name": "z", "dtype": "float32"}]
    of = JOB.model_copy(update={"operator": operator(outputs=two)})
    for sizes, strides, apart_bytes in (((32, 128), (256, 1), 512), ((64, 64), (128, 2), 4)):
        even = whole.model_copy(update={"shape": sizes, "strides": strides})
        odd = even.model_copy(update={"offset_bytes": apart_bytes})
        assert check_bundle(changed(outputs=(even, odd)), of) is None
        off_by_two = odd.model_copy(update={"offset_bytes": apart_bytes - 2})
        assert "'z' shares memory with another" in fault(changed(outputs=(even, off_by_two)), of)[1]


def test_strides_that_nobody_can_follow_are_refused_as_such(monkeypatch):
    monkeypatch.setattr(overlap, "MOST_TRIED", 0)
    two = [{"name": "y", "dtype": "float32"}, {"name": "z", "dtype": "float32"}]
    of = JOB.model_copy(update={"operator": operator(outputs=two)})
    assert "strides of output 'z' are too complex" in fault(changed(outputs=(whole, whole)), of)[1]


def test_elements_of_an_output_do_not_share_memory():
    for sizes, strides in (((64, 128), (0, 1)), ((2**40, 2**40), (0, 0)), ((64, 128), (1, 1))):
        expanded = whole.model_copy(update={"shape": sizes, "strides": strides})
        assert "elements of output 'y' share memory" in fault(changed(outputs=(expanded,)))[1]
