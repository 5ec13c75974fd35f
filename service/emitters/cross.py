"""The emitter `cross`: host part of one elite with the device part of another, or numbers of one in the other.

It works on syntax trees. Two elites of one search mostly descend from one seed, so that their kernels share parameter
names; parameters without a match stay as they are. The judge decides if the two parts fit together.
"""

import ast
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from service.emitters.base import Emitter, Parent, Proposal, ProposalContext
from service.emitters.parameters import TunableParameter
from service.emitters.rules.base import is_readable
from service.emitters.rules.kernels import RewritableKernel, kernels
from service.emitters.rules.patterns import reads
from service.emitters.tune import describe, read, write
from service.operators.sources import LAUNCH_OPTIONS, LaunchSite, digest, jit_functions, parse, render, without_texts

DEVICE = "device part of the second in the host part of the first"
"""Note of a proposal that joins two parts."""

Move = Callable[[Parent, Parent, ProposalContext], tuple[str, str] | None]
"""Function that makes a source and a note from two parents, mostly from the first; None if it cannot."""


class Cross(Emitter):
    """Joins the parts of two elites, or puts the numbers of one into the other."""

    name: ClassVar[str] = "cross"
    arity: ClassVar[int] = 2

    async def propose(self, context: ProposalContext) -> Proposal | None:
        """Cross the chosen parent with the other; None if they are equal or have nothing to exchange."""
        known = {digest(parent.source) for parent in context.parents}
        if len(known) < 2:
            return None
        for move, first, second in _moves(context):
            try:
                made = move(first, second, context)
            except (SyntaxError, RecursionError):
                continue
            if made is not None and digest(made[0]) not in known:
                parents = tuple(parent.candidate for parent in (first, second) if parent.candidate)
                return Proposal(made[0], parents, made[1])
        return None


def _moves(context: ProposalContext) -> Iterator[tuple[Move, Parent, Parent]]:
    """Return every move in both directions, in a random order."""
    one, other = context.parents[:2]
    pairs = [(move, *pair) for move in (join, exchange) for pair in ((one, other), (other, one))]
    return iter(context.rng.sample(pairs, len(pairs)))


def exchange(first: Parent, second: Parent, context: ProposalContext) -> tuple[str, str] | None:
    """Return the first with some of the numbers of the second, where both have a parameter of one name."""
    own, theirs = read(first.source, context.target), read(second.source, context.target)
    values = _drawn(own, {item.name: item.value for item in theirs if item.value is not None}, context.rng)
    note = describe(own, values)
    return (write(first.source, context.target, values), note) if note else None


def _drawn(own: Sequence[TunableParameter], theirs: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    """Draw some of the numbers that differ, at least one if there are any."""
    found = {item.name: theirs[item.name] for item in own if theirs.get(item.name, item.value) != item.value}
    legal = [item.name for item in own if item.name in found and found[item.name] in item.ladder]
    chosen = [name for name in legal if rng.random() < 0.5] or legal[:1]
    return {name: found[name] for name in chosen}


def join(first: Parent, second: Parent, _: ProposalContext) -> tuple[str, str] | None:
    """Return the first's host part with the second's kernels."""
    module, donor = parse(first.source), parse(second.source)
    if not (is_readable(module) and is_readable(donor)):
        return None
    theirs = {kernel.function.name: kernel for kernel in kernels(donor)}
    joined = False
    for kernel in list(kernels(module)):
        other = theirs.get(kernel.function.name)
        if other is not None and ast.unparse(other.function) != ast.unparse(kernel.function):
            joined |= _replace(module, kernel, donor, other)
    return (render(without_texts(module)), DEVICE) if joined else None


def _replace(module: ast.Module, kernel: RewritableKernel, donor: ast.Module, other: RewritableKernel) -> bool:
    """Replace a kernel by another if every launch can pass its arguments. Returns True if that was possible."""
    passed = [_arguments(kernel, launch, other) for launch in kernel.launches]
    if any(arguments is None for arguments in passed):
        return False
    own, theirs = jit_functions(module), jit_functions(donor)
    needed = [theirs[name] for name in reads(other.function) & theirs.keys() if name not in own]
    place = module.body.index(kernel.function)
    module.body[place : place + 1] = [*sorted(needed, key=lambda item: item.name), other.function]
    for launch, arguments in zip(kernel.launches, passed, strict=True):
        options = [item for item in launch.call.keywords if item.arg in LAUNCH_OPTIONS]
        launch.call.args, launch.call.keywords = [], [*(arguments or []), *options]
    return True


def _arguments(kernel: RewritableKernel, launch: LaunchSite, other: RewritableKernel) -> list[ast.keyword] | None:
    """Make the arguments of a launch for the other kernel, by name; constants that only the other has are kept."""
    found = []
    for name in other.parameters:
        if name in kernel.parameters:
            found.append(ast.keyword(name, kernel.argument(launch, name)))
            continue
        value = other.argument(other.launches[0], name)
        if not isinstance(value, ast.Constant):
            return None
        found.append(ast.keyword(name, value))
    return found
