"""The emitter `rewrite`: one rule, sometimes two, applied to the parent's syntax tree."""

import random
from collections.abc import Iterable, Sequence
from typing import ClassVar

from service.emitters.bandit import ArmStats, ranked
from service.emitters.base import Edit, Emitter, EmitterTrial, Proposal, ProposalContext
from service.emitters.rules import RULES, rules_for
from service.operators.sources import digest

JOINT = " + "
"""Separator of rule names in a note."""

SECOND_RULE = 0.3
"""Probability of a second rule after the first: some pay only together."""

PATIENCE = 4
"""Failures without a success after which a rule is suspended. Our choice: three parents may share what fails."""
BARREN = ("syntax_error", "forbidden_op", "compile_error", "unsupported_launch", "plan_rejected", "trace_crashed")
"""Outcomes of kernels that never ran."""


class Rewrite(Emitter):
    """Applies rules by their recent gain in this search; one that never gave a compiling kernel is suspended."""

    name: ClassVar[str] = "rewrite"

    def suspended(self, trials: Sequence[EmitterTrial]) -> dict[str, str]:
        """Return the rules that, used alone, never gave a compiling kernel.

        Only recent trials count: a rule returns once newer trials have replaced its failures.
        """
        found = {}
        for name in RULES:
            outcomes = [trial.outcome for trial in trials if trial.note == name]
            if len(outcomes) >= PATIENCE and all(outcome in BARREN for outcome in outcomes):
                found[name] = f"{len(outcomes)} of {len(outcomes)} trials ended in {', '.join(sorted(set(outcomes)))}"
        return found

    async def propose(self, context: ProposalContext) -> Proposal | None:
        """Rewrite the chosen parent; None if no rule applies to it."""
        parent, rng = context.parents[0], context.rng
        accounts, seen = rule_accounts(context.trials), [digest(parent.source)]
        rules = [name for name in rules_for(context.compilers) if name not in self.suspended(context.trials)]
        source, applied = parent.source, []
        for _ in range(1 + (rng.random() < SECOND_RULE)):
            if step := _step(source, _fresh_first(ranked(accounts, rules, rng), context), rng, seen):
                source = step[1]
                applied.append(step[0])
                seen.append(digest(source))
        if not applied:
            return None
        return Proposal(source, (parent.candidate,) if parent.candidate else (), JOINT.join(applied))

    def edits(self, context: ProposalContext) -> Sequence[Edit]:
        """List one edit per rule that applies and is not suspended."""
        source, suspended = context.parents[0].source, self.suspended(context.trials)
        rules = rules_for(context.compilers).items()
        return [Edit(name, (name,)) for name, rule in rules if name not in suspended and rule.applies(source)]

    def apply(self, context: ProposalContext, edit: Edit) -> Proposal | None:
        """Apply that rule to the parent; None if it does not apply."""
        parent = context.parents[0]
        step = _step(parent.source, edit.rules, context.rng, [digest(parent.source)])
        return Proposal(step[1], (parent.candidate,) if parent.candidate else (), step[0]) if step else None


def rule_accounts(trials: Sequence[EmitterTrial]) -> dict[str, ArmStats]:
    """Return the statistics of each rule; a trial of two rules counts for both."""
    found = {}
    for name in RULES:
        mine = [trial for trial in trials if name in trial.note.split(JOINT)]
        gains = [trial.gain for trial in mine if trial.gain is not None]
        found[name] = ArmStats(len(mine), float(len(mine)), len(gains), sum(gains))
    return found


def _fresh_first(order: Sequence[str], context: ProposalContext) -> list[str]:
    """Move the rules that were tried on this very parent to the end."""
    parent = context.parents[0].candidate
    tried = {name for trial in context.trials if parent in trial.parents for name in trial.note.split(JOINT)}
    return sorted(order, key=lambda name: name in tried)


def _step(source: str, order: Iterable[str], rng: random.Random, seen: list[str]) -> tuple[str, str] | None:
    """Return the first rule that gives a new source, and that source."""
    for name in order:
        changed = RULES[name].rewrite(source, rng)
        if changed is not None and digest(changed) not in seen:
            return name, changed
    return None
