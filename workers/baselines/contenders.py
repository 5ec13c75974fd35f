"""The contenders of one shape besides the pacer: the alternatives to a searched kernel."""

from collections.abc import Callable
from functools import partial

import torch

from workers.baselines.helion import HELION, helion_of
from workers.baselines.inductor import compiled
from workers.baselines.liger import LIGER, liger_of
from workers.baselines.module import Function, spread, to_module
from workers.baselines.native import NATIVE, natives_of
from workers.baselines.training import both_ways, forward_of
from workers.gpu_lock import GpuLock
from workers.protocol import Graph, Operator

EAGER, COMPILE, MAX_AUTOTUNE = "eager", "compile", "max_autotune"
MODES = {COMPILE: "default", MAX_AUTOTUNE: "max-autotune-no-cudagraphs"}
"""Modes of torch.compile; CUDA graphs are captured by us, for every contender in the same way."""

Maker = Callable[[], Function]
"""Prepares a contender; may raise its library's errors."""


def contenders_of(
    operator: Operator, graph: Graph, device: torch.device, turns: GpuLock
) -> tuple[dict[str, Maker], dict[str, str]]:
    """Return the contenders to time at a shape, eager first.

    Args:
        operator: The contract.
        graph: Its reference for the shape.
        device: Device that they run on.
        turns: Lock of the card, which compilers take themselves.

    Returns:
        Makers by name, and the reasons for missing contenders by name.

    Raises:
        ValueError: If the graph names an operation that a reference may not use.
    """
    to_own_module = partial(to_module, graph, len(operator.given), device)
    makers: dict[str, Maker] = {EAGER: partial(spread, to_own_module())}
    to_compile = partial(forward_of, operator, graph, device) if operator.backward else to_own_module
    wanted = (*MODES, NATIVE, LIGER, HELION) if operator.baselines is None else operator.baselines
    modes = {name: mode for name, mode in MODES.items() if name in wanted}
    makers |= {name: partial(_compiled, operator, to_compile(), mode, turns) for name, mode in modes.items()}
    if NATIVE in wanted:
        makers |= {name: partial(_as_is, found) for name, found in natives_of(operator, graph.shape.dims).items()}
    libraries = {LIGER: liger_of(operator), HELION: helion_of(operator, graph.shape.dims, turns)}
    found = {name: library for name, library in libraries.items() if name in wanted}
    makers |= {name: partial(_as_is, library) for name, library in found.items() if not isinstance(library, str)}
    return makers, {name: reason for name, reason in found.items() if isinstance(reason, str)}


def _compiled(operator: Operator, module: torch.fx.GraphModule, mode: str, turns: GpuLock) -> Function:
    function = compiled(module, mode, turns)
    return both_ways(function, operator) if operator.backward else spread(function)


def _as_is(function: Function) -> Function:
    return function
