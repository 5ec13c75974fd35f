"""Operations that only move contents are copies of the plan."""

import pytest
import torch

from tests.workers.tracer.test_recorder import outcome_of, plan_of
from workers.protocol import Copy, Fill, Outcome


def moved(work):
    """The buffers of a plan after its copies and fills, computed with numbers in place of the input's elements."""
    plan = plan_of(work, policy="copy")
    memory = {buffer.id: torch.full((buffer.bytes // 4,), -1.0) for buffer in plan.buffers}
    memory[0] = torch.arange(128.0)

    def seen(view):
        return memory[view.buffer].as_strided(view.shape, view.strides, view.offset_bytes // 4)

    for step in plan.steps:
        if isinstance(step, Copy):
            seen(step.target).copy_(seen(step.source))
        elif isinstance(step, Fill):
            seen(step.target).fill_(step.value)
    return seen(plan.outputs[0])


MOVEMENTS = {
    "cat": lambda x: torch.cat((x[:3], x[5:], x.t()[:16, :1].expand(16, 16)), 0),
    "cat along rows": lambda x: torch.cat((x, x[:, 3:4]), -1),
    "cat of nothing": lambda x: torch.cat((torch.empty(0, **from_(x)), x[:1], x[:0])),
    "hstack": lambda x: torch.hstack((x, x)),
    "stack": lambda x: torch.stack((x, x + 0 if not x.is_meta else x.clone()), 1),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 2, 3, 0), value=7.0),
    "pad by none": lambda x: torch.nn.functional.pad(x, (0, 0)),
    "cut by a pad": lambda x: torch.nn.functional.pad(x, (-1, 2, 0, -3)),
    "repeat": lambda x: x[:, 2:5].repeat(2, 1, 3),
    "tile": lambda x: x.tile(2, 2),
    "repeat_interleave": lambda x: x.repeat_interleave(3, dim=1),
}


def from_(x):
    return {"device": x.device, "dtype": x.dtype}


@pytest.mark.parametrize("work", MOVEMENTS.values(), ids=MOVEMENTS)
def test_what_only_moves_contents_is_copies(work):
    assert torch.equal(moved(work), work(torch.arange(128.0).view(8, 16)))
    assert outcome_of(work) is Outcome.FORBIDDEN_OP


def test_contents_are_cast_where_they_are_joined():
    plan = plan_of(lambda x: torch.cat((x, x.half())), policy="copy")
    assert [view.dtype for view in plan.outputs] == ["float32"]
