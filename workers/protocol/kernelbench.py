"""Problems of KernelBench: what is asked about a problem file, and what an inspection in the jail says of it."""

from typing import Annotated

from pydantic import Field

from workers.protocol.base import WireModel
from workers.protocol.operator import Identifier, Input, Output, Scalar, Size
from workers.protocol.report import Reason

MODULE = "_model"
"""Name of a problem's module after `PREPARATION` has run."""
PREPARATION = f"""
import torch

# Only what the module was made with counts: its tensors are arguments, and have no data here.
with torch.device("meta"):
    {MODULE} = Model(*get_init_inputs())
for _part in {MODULE}.modules():
    # In training a batch norm takes the statistics of its batch. What it would note of them for later is no result.
    if _part.training and getattr(_part, "track_running_stats", False):
        _part.track_running_stats = False
        _part.running_mean = _part.running_var = _part.num_batches_tracked = None
"""
"""Follows the text of a problem, where it is inspected and in the reference that is made of it."""


class ProblemQuestion(WireModel):
    """One problem file.

    Attributes:
        source: Its text.
        published: Whether inputs are drawn as the problem draws them, rather than as widely as any operator's.
    """

    source: Annotated[str, Field(min_length=1, max_length=49152)]
    published: bool = False


class ProblemInspection(WireModel):
    """The description of a problem, or the reason why it cannot be evaluated.

    Attributes:
        reason: Why no operator can be made of it; empty if one can.
        line: The line of the problem that the reason is about.
        inputs: Tensors that `forward` is given, then the module's parameters and buffers.
        scalars: Numbers that `forward` is given.
        outputs: What it returns.
        arguments: Names of `inputs` and `scalars` in the order in which `forward` takes them.
        parameters: What the module calls each parameter and buffer, such as `conv.weight`, by the input's name.
        dims: The published size of every named dimension.
        ranges: Sizes that the module takes besides, found by trying.
        notes: What a reader of the operator should know, a sentence each.
    """

    reason: Reason = ""
    line: Annotated[int, Field(ge=1, le=10**6)] | None = None
    inputs: Annotated[tuple[Input, ...], Field(max_length=32)] = ()
    scalars: Annotated[tuple[Scalar, ...], Field(max_length=32)] = ()
    outputs: Annotated[tuple[Output, ...], Field(max_length=16)] = ()
    arguments: Annotated[tuple[Identifier, ...], Field(max_length=64)] = ()
    parameters: dict[Identifier, Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]+$", max_length=256)]] = {}
    dims: dict[Identifier, Size] = {}
    ranges: dict[Identifier, tuple[Size, Size]] = {}
    notes: Annotated[tuple[Annotated[str, Field(max_length=1000)], ...], Field(max_length=64)] = ()
