"""Problems of KernelBench: the question about a problem file, and the result of its inspection in the sandbox."""

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
"""Code after the text of a problem, both in its inspection and in the reference made from it."""


class ProblemQuestion(WireModel):
    """One problem file.

    Attributes:
        source: Text of the file.
        published: True to draw inputs as the problem does; False to draw them as widely as any operator's.
    """

    source: Annotated[str, Field(min_length=1, max_length=49152)]
    published: bool = False


class ProblemInspection(WireModel):
    """The description of a problem, or the reason why it cannot be evaluated.

    Attributes:
        reason: Reason why no operator can be made from it; empty if one can.
        line: Line of the problem that the reason is about.
        inputs: Tensor arguments of `forward`, then the module's parameters and buffers.
        scalars: Number arguments of `forward`.
        outputs: Results of `forward`.
        arguments: Names of `inputs` and `scalars` in the order of `forward`'s parameters.
        parameters: The module's names of parameters and buffers, such as `conv.weight`, by the input's name.
        dims: Published size of every named dimension.
        ranges: Other sizes that the module accepts, found by trying.
        notes: Notes for readers of the operator, one sentence each.
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
