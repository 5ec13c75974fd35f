"""Python files that become operators: the question about a file, and the result of its inspection in the sandbox.

A file is a problem of KernelBench, or has a function or module of any name with example inputs.
"""

import ast
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from workers.protocol.base import WireModel
from workers.protocol.operator import MAX_INPUTS, Identifier, Input, Output, Scalar, Size
from workers.protocol.report import Reason

MODULE = "_model"
"""Name of a problem's module after `PREPARATION` has run."""
NEW = "ModelNew"
"""Name of the module in a solution of KernelBench; a candidate for a problem may be such a module."""
EXAMPLES = "example_inputs"
"""Name of the function that makes the example arguments of a function or module."""
RESULTS = "_results"
"""Name of the function of `PREPARATION` that lists the tensors that a call returns."""
MARK = "# What follows was added by Kernelreef.\n"
"""Comment between the text of a file and the preparation."""
_FLATTENING = f"""
def {RESULTS}(value):
    \"\"\"List the tensors of a result: alone, or in tuples, lists, mappings and fields.\"\"\"
    if isinstance(value, torch.Tensor):
        return (value,)
    parts = value.values() if hasattr(value, "values") else value if isinstance(value, (tuple, list)) else ()
    return tuple(each for part in parts for each in {RESULTS}(part))
"""
_MODES = f"""
for _part in {MODULE}.modules():
    # Dropout is left out, as in inference. Batch norms of a problem take the statistics of their batch, as in training.
    _part.training = {{training}} and hasattr(_part, "track_running_stats")
    if _part.training and _part.track_running_stats:
        _part.track_running_stats = False
        _part.running_mean = _part.running_var = _part.num_batches_tracked = None
"""
Form = Literal["problem", "function", "module", "class"]
"""Kind of a file's computation: a KernelBench problem, a function, a module, or a class or function that makes one."""


MAKING = re.compile(rf'with torch\.device\("(cpu|meta)"\):\n    {MODULE} = \w+\((\*get_init_inputs\(\))?\)\n')
"""Pattern of the code that makes a module from a class or function: its device, and settings if it takes any."""


def takes_module(reference: str) -> bool:
    """Return True if a class `ModelNew` answers an operator with this reference, which was made from a module."""
    return MAKING.search(reference.partition(f"\n{MARK}")[2]) is not None


def preparation(form: Form, target: str, *, real: bool = False) -> str:
    """Return the code after the text of a file, both in its inspection and in the reference made from it.

    Args:
        form: Kind of the computation.
        target: Its name.
        real: True to make the module with data: constants in it, such as masks, stay in the reference. Otherwise its
            tensors have no data.
    """
    if form == "function":
        return f"\n{MARK}import torch\n\n_function = {target}\n{_FLATTENING}"
    made = {"problem": f"{target}(*get_init_inputs())", "class": f"{target}()", "module": target}[form]
    device = "cpu" if real else "meta"
    return (
        f'\n{MARK}import torch\n\nwith torch.device("{device}"):\n    {MODULE} = {made}\n'
        f"{_MODES.format(training=form == 'problem')}{_FLATTENING}"
    )


def _plain(text: str) -> str:
    """Return the text of an argument if it is a name or a plain value, which a reference may repeat.

    Raises:
        ValueError: If it is other code.
    """
    if not text.isidentifier():
        try:
            ast.literal_eval(text)
        except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
            raise ValueError(f"'{text}' is neither a name nor a plain value") from error
    return text


Argument = Annotated[str, Field(max_length=256), AfterValidator(_plain)]
"""Text of an argument of a call: a name, or a plain value such as `None` or `(1, 2)`."""


class ProblemQuestion(WireModel):
    """One file.

    Attributes:
        source: Text of the file.
        target: Name of the function or module in it; empty for a problem of KernelBench, or the only one.
        published: True to draw inputs as the file does; False to draw them as widely as any operator's.
    """

    source: Annotated[str, Field(min_length=1, max_length=49152)]
    target: Identifier | Literal[""] = ""
    published: bool = False


class ProblemInspection(WireModel):
    """The description of a file's computation, or the reason why it cannot be evaluated.

    Attributes:
        reason: Reason why no operator can be made from it; empty if one can.
        line: Line of the file that the reason is about.
        form: Kind of the computation.
        target: Name of the function or module in the file.
        real: True if its module is made with data, because constants in it belong to the reference.
        inputs: Tensor arguments of the call, then the module's parameters and buffers.
        scalars: Number arguments of the call.
        outputs: Results of the call.
        arguments: Arguments of the call in order: names of `inputs` and `scalars`, or other values as Python text.
        keywords: Names of keyword arguments among `arguments`, by position.
        parameters: The module's names of parameters and buffers, such as `conv.weight`, by the input's name.
        shapes: Sizes of every named dimension, one row per example.
        ranges: Other sizes that the call accepts, found by trying.
        notes: Notes for readers of the operator, one sentence each.
        default_tf32: True if PyTorch's defaults compute an operation of it with TF32, as cuDNN's float32 convolutions.
    """

    reason: Reason = ""
    line: Annotated[int, Field(ge=1, le=10**6)] | None = None
    form: Form = "problem"
    target: Identifier | Literal[""] = ""
    real: bool = False
    inputs: Annotated[tuple[Input, ...], Field(max_length=MAX_INPUTS)] = ()
    scalars: Annotated[tuple[Scalar, ...], Field(max_length=32)] = ()
    outputs: Annotated[tuple[Output, ...], Field(max_length=16)] = ()
    arguments: Annotated[tuple[Argument, ...], Field(max_length=64)] = ()
    keywords: dict[int, Identifier] = {}
    parameters: dict[Identifier, Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]+$", max_length=256)]] = {}
    shapes: Annotated[tuple[dict[Identifier, Size], ...], Field(max_length=64)] = ()
    ranges: dict[Identifier, tuple[Size, Size]] = {}
    notes: Annotated[tuple[Annotated[str, Field(max_length=1000)], ...], Field(max_length=64)] = ()
    default_tf32: bool = False
