"""The symbolic recorder: formulas where a plan has numbers, and guards where Triton compiles another kernel."""

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher

from workers.protocol import Outcome, Policy
from workers.protocol.formula import Term, evaluate
from workers.tracer.refusal import TraceRefused
from workers.tracer.sizes import SizeLog
from workers.tracer.symbolic_recorder import SymbolicRecorder

SIZES = {"M": 8, "N": 48}


def recorded(work, policy="copy"):
    """The log and the symbolic plan of some host code with an input of M x N elements."""
    log = SizeLog(SIZES, {"M": (1, 4096), "N": (1, 4096)})
    with enable_python_dispatcher(), torch.no_grad():
        x = torch.empty((log.size("M"), log.size("N")), dtype=torch.bfloat16, device="meta")
        recorder = SymbolicRecorder(Policy(host=policy), [x], log)
        with recorder:
            result = work(x)
        return log, recorder.symbolic_plan([result])


def at(term: Term, m: int, n: int) -> object:
    return evaluate(term, {"M": m, "N": n})


def test_buffers_and_views_are_formulas() -> None:
    _, plan = recorded(lambda x: x.new_empty((x.shape[1] * 2, x.shape[0]))[4:].t())
    assert [at(each.bytes, 3, 5) for each in plan.buffers] == [30, 60]
    view = plan.outputs[0]
    assert ([at(each, 3, 5) for each in view.shape], [at(each, 3, 5) for each in view.strides]) == ([3, 6], [1, 3])
    assert at(view.offset_bytes, 3, 5) == 24 and at(view.end_bytes, 3, 5) == 60


def test_steps_keep_their_order() -> None:
    _, plan = recorded(lambda x: torch.zeros_like(x).copy_(x.t().contiguous().t()))
    assert [step.op for step in plan.steps] == ["allocate", "fill", "allocate", "copy", "copy"]
    with pytest.raises(TraceRefused, match="policy allows no copies"):
        recorded(lambda x: x.t().contiguous(), policy="allocate")


def test_the_address_of_a_part_is_guarded() -> None:
    def halves(x):
        return x[x.shape[0] // 2 :]

    log, _ = recorded(halves)
    before = len(log.guards)
    log = SizeLog(SIZES, {"M": (1, 4096), "N": (1, 4096)})
    with enable_python_dispatcher(), torch.no_grad():
        x = torch.empty((log.size("M"), log.size("N")), dtype=torch.bfloat16, device="meta")
        recorder = SymbolicRecorder(Policy(), [x], log)
        part = halves(x)
        assert recorder.address_of(part) % 2**40 == 4 * 48 * 2
    assert len(log.guards) > before
    assert all(evaluate(guard, SIZES) for guard in log.guards)
    assert not all(evaluate(guard, {"M": 10, "N": 48}) for guard in log.guards), "another offset, another address"


def test_memory_of_other_calls_is_refused() -> None:
    other = torch.empty(4, device="meta")
    with pytest.raises(TraceRefused) as refused:
        recorded(lambda _: other)
    assert refused.value.outcome is Outcome.PLAN_REJECTED
