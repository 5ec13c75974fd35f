"""Fusion of reductions with what follows them: further orders of loops for TorchInductor to try.

Since torch 2.13 it orders the loops of what follows by the reduction's result alone. Where that has fewer axes, it
gives up, and a tensor that is normalised over an axis in the middle is read twice, by two kernels.
"""

from collections.abc import Callable, Iterable
from functools import cache, partialmethod
from importlib import import_module
from typing import Protocol

REORDER = "_try_reorder_loops_for_candidates"
"""Name of the scheduler's method since torch 2.13. It returns -1 where it finds no order."""


class _Dependency(Protocol):
    """The used part of Inductor's `MemoryDep`."""

    name: str
    num_vars: int


class _Dependencies(Protocol):
    """The used part of Inductor's `ReadWrites`."""

    reads: Iterable[_Dependency]


class _Loops(Protocol):
    """The used part of Inductor's `BaseSchedulerNode`."""

    read_writes: _Dependencies

    def is_reduction(self) -> bool: ...

    def reorder_loops_by_dep_pair(self, mine: _Dependency, its: _Dependency) -> bool: ...


class _Scheduler(Protocol):
    """The used part of Inductor's `Scheduler`."""

    def dep_size_hint(self, dependency: _Dependency) -> int: ...

    def score_fusion_memory(self, one: _Loops, other: _Loops) -> int: ...


@cache
def reorder_by_reads() -> None:
    """Have TorchInductor also try the order in which both sides read a tensor. Affects the whole process, once."""
    # Imported late, because it reads `torch.cuda` at its import.
    scheduler = import_module("torch._inductor.scheduler").Scheduler
    if reorder := getattr(scheduler, REORDER, None):
        setattr(scheduler, REORDER, partialmethod(_reordered, reorder))


def _reordered(scheduler: _Scheduler, reorder: Callable[..., int], one: _Loops, other: _Loops) -> int:
    """Order loops as Inductor does; else those of the side without a sum by the largest tensor that both read."""
    score = reorder(scheduler, one, other)
    if score >= 0 or one.is_reduction() == other.is_reduction():
        return score
    pointwise, reduction = (other, one) if one.is_reduction() else (one, other)
    reads = {dep.name: dep for dep in reduction.read_writes.reads}
    both = [(dep, reads[dep.name]) for dep in pointwise.read_writes.reads if dep.name in reads]
    memory = import_module("torch._inductor.dependencies").MemoryDep
    fitting = [pair for pair in both if all(isinstance(dep, memory) for dep in pair)]
    for mine, its in sorted(fitting, key=lambda pair: -scheduler.dep_size_hint(pair[0])):
        if mine.num_vars == its.num_vars and pointwise.reorder_loops_by_dep_pair(mine, its):
            return scheduler.score_fusion_memory(one, other)
    return score
