"""Text of a Python file for a function or module that exists in memory: its operations, and example inputs.

Runs in a user's own process, before anything is submitted. The operations are traced with symbolic sizes, so closures,
modules of any library and functions of a notebook become a file that needs torch alone.
"""

import collections.abc
import copy
import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves

from workers.kernelbench.arguments import SplitCall, put_together, spelled, split_call
from workers.kernelbench.loading import signature_of
from workers.protocol.kernelbench import GIVEN, HELPERS
from workers.tracer.constants import WRITTEN_OUT
from workers.tracer.reference import without_fast_paths

MOST_LITERAL = 1024
"""Maximum number of integers that a file repeats one by one."""
Example = Sequence[object] | Mapping[str, object]
"""Arguments of one call: in order, or by keyword."""


class NotTraceable(ValueError):
    """The function cannot become a file; the message has the reason."""


def traced_text(function: Callable[..., object], examples: Sequence[Example], name: str) -> str:
    """Write a Python file that computes what a function or module computes.

    Args:
        function: The function, or an `nn.Module`, whose parameters and buffers become arguments.
        examples: Arguments of calls. Values that are no tensors are those of the first example.
        name: Name of the function in the file.

    Raises:
        NotTraceable: If it uses a tensor that is neither an argument nor a parameter, or has no tensor argument.
        Exception: Any exception of the function.
    """
    state = _state_of(function)
    arguments = _by_name(function, examples[0])
    split = _split(arguments)
    given = {key: value for key, value in split.leaves.items() if isinstance(value, torch.Tensor)}
    if not given:
        raise NotTraceable("none of its arguments is a tensor")
    names = list(given)
    for path in state:
        names.append(spelled(path, set(names)))
    known: dict[str, Any] = {"torch": torch, "copy": copy, "collections": collections, GIVEN: arguments}
    exec(HELPERS, known)

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = put_together(split.texts, split.leaves | dict(zip(given, tensors, strict=False)), known)
        positional = () if isinstance(examples[0], Mapping) else tuple(values.values())
        keywords = values if isinstance(examples[0], Mapping) else {}
        if isinstance(function, torch.nn.Module):
            weights = dict(zip(state, tensors[len(given) :], strict=True))
            result = torch.func.functional_call(function, weights, positional, keywords)
        else:
            result = function(*positional, **keywords)
        tensors_of = (each for each in tree_leaves(_plain(result)) if isinstance(each, torch.Tensor))
        return tuple(torch.view_as_real(each) if each.is_complex() else each for each in tensors_of)

    blank = [torch.empty(each.shape, dtype=each.dtype) for each in (*given.values(), *state.values())]
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), without_fast_paths(), _uncompiled():
        traced = make_fx(call, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*blank)
    traced.graph.eliminate_dead_code()
    traced.recompile()
    rows = [*_rows(function, examples, given)]
    return _file(traced.code, name, names, rows, state, _constants(traced))


def _constants(traced: torch.fx.GraphModule) -> dict[str, torch.Tensor]:
    """Return the tensors that a graph holds, which are few numbers."""
    names = [str(node.target) for node in traced.graph.nodes if node.op == "get_attr"]
    found = {name: getattr(traced, name) for name in names}
    large = next((each for each in found.values() if each.numel() > WRITTEN_OUT), None)
    if large is not None:
        raise NotTraceable(
            f"it uses a tensor of {large.numel()} numbers that is neither an argument nor a parameter; pass it as an "
            "argument"
        )
    return found


def _state_of(function: object) -> dict[str, torch.Tensor]:
    if not isinstance(function, torch.nn.Module):
        return {}
    return {**dict(function.named_parameters()), **dict(function.named_buffers())}


def _by_name(function: Callable[..., object], example: Example) -> dict[str, object]:
    """Return the arguments of a call by the names of the function's parameters."""
    if isinstance(example, Mapping):
        return dict(example)
    parameters = signature_of(function).parameters.values()
    known = [item.name for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]
    return {(known[at] if at < len(known) else f"input_{at}"): value for at, value in enumerate(example)}


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Let functions of torch.compile run as they are written."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None:
        yield
        return
    with dynamo.config.patch(error_on_nested_fx_trace=False), torch.compiler.set_stance("force_eager"):
        yield


def _split(arguments: Mapping[str, object]) -> SplitCall:
    return split_call(arguments, {name: f"[{name!r}]" for name in arguments})


def _plain(value: object) -> object:
    """Return a result whose dataclasses are lists of their fields."""
    if dataclasses.is_dataclass(value) and not isinstance(value, Mapping | type):
        return [_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return value


def _rows(
    function: Callable[..., object], examples: Sequence[Example], given: Mapping[str, torch.Tensor]
) -> Iterator[list[torch.Tensor]]:
    for example in examples:
        row = _split(_by_name(function, example)).leaves
        found = [row.get(name) for name in given]
        tensors = [value for value in found if isinstance(value, torch.Tensor)]
        if len(tensors) != len(found):
            raise NotTraceable("its examples differ in their tensors")
        yield tensors


def _file(
    code: str,
    name: str,
    names: Sequence[str],
    rows: Sequence[Sequence[torch.Tensor]],
    state: Mapping[str, torch.Tensor],
    constants: Mapping[str, torch.Tensor],
) -> str:
    held = "".join(
        f"_held{key} = torch.tensor({each.tolist()}, dtype={each.dtype})\n" for key, each in constants.items()
    )
    code = re.sub(r"\bself\.(_\w+)", r"_held\1", code)
    graph = re.sub(r"def forward\(self, ", "def _graph(", code.strip(), count=1)
    graph = re.sub(r";  [\w= ]+ = None", "", graph)
    weights = [_weight(tensor) for tensor in state.values()]
    examples = "".join(f"        ({', '.join([*map(_argument, row), *weights])},),\n" for row in rows)
    listed = ", ".join(names)
    return (
        f'"""Operations of {name}, traced from memory."""\n\nimport torch\nfrom torch import device, inf, nan\n\n'
        f"{held}\n{graph}\n\n\ndef {name}({listed}):\n    return _graph({listed})\n\n\n"
        f"def example_inputs():\n    return [\n{examples}    ]\n"
    )


def _argument(tensor: torch.Tensor) -> str:
    """Return an expression that makes a tensor like an argument: the same few integers, or numbers of its range."""
    sizes = tuple(tensor.shape)
    if tensor.dtype == torch.bool:
        return f"torch.rand({sizes}) > 0.5"
    if tensor.is_floating_point():
        return f"torch.randn({sizes}).to({tensor.dtype})"
    if tensor.numel() <= MOST_LITERAL and tensor.dim():  # Their order may be a part of the contract.
        return f"torch.tensor({tensor.tolist()}, dtype={tensor.dtype})"
    low, high = (int(tensor.min()), int(tensor.max())) if tensor.numel() else (0, 0)
    return f"torch.randint({low}, {high + 1}, {sizes}, dtype={tensor.dtype})"


def _weight(tensor: torch.Tensor) -> str:
    """Return an expression that makes a tensor like a parameter, with values of the same size."""
    if not tensor.is_floating_point() or not tensor.numel():
        return _argument(tensor)
    reach = float(tensor.detach().abs().max().float()) or 0.5
    return f"torch.empty({tuple(tensor.shape)}, dtype={tensor.dtype}).uniform_({-reach:.4g}, {reach:.4g})"
