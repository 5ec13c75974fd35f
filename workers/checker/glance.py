"""The quick look at what runs left: one pass over every output, and all inputs known or made again.

A run that does not look right is a suspect, no more: whether it fails is for the table of checks to say.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch

from workers.checker.answers import Answer, Exact, Near, derive
from workers.checker.base import Card, Run, Subject, Tensors
from workers.checker.memory import Entry, Key, Memory
from workers.checker.sight import expect, input_views, inputs_before, look, outputs, timed_inputs
from workers.checks import Evidence
from workers.orders import TIMED, Content


class Strain(NamedTuple):
    """How near a run is to failing: where both keep to 1 it is right.

    Attributes:
        error: Of its errors; infinite if it changed an input, or an output is no such thing as it should be.
        bias: Of what its errors have in common.
    """

    error: float
    bias: float

    @property
    def is_right(self) -> bool:
        """Whether it needs no closer look."""
        return max(self) <= 1


BATCH_BYTES = 4 * 2**30
"""Bytes of slots whose inputs and answers are at hand at once; these take up to twice as much."""


class Glance:
    """Looks at runs of one shape.

    Args:
        card: Holds the arena.
        subject: What is judged by.
        memory: Keeps answers from look to look.
    """

    def __init__(self, card: Card, subject: Subject, memory: Memory) -> None:
        self._card = card
        self._subject = subject
        self._memory = memory

    def strains(self, runs: Sequence[Run], *, widened: bool = False) -> list[Strain]:
        """How near each run is to failing.

        Args:
            runs: All of one shape; either all on timed content of one seed, or none.
            widened: Whether results may move as far as nudged inputs move them; dearer the first time.
        """
        positions: list[int] = []
        found: list[torch.Tensor] = []
        for groups in self._batches(runs):
            positions += [index for group in groups for index in group]
            found.append(self._look([[runs[index] for index in group] for group in groups], widened))
        strains = torch.cat(found, dim=1).T.tolist() if found else []
        return [Strain(*strain) for _, strain in sorted(zip(positions, strains, strict=True))]

    def _batches(self, runs: Sequence[Run]) -> Iterator[list[list[int]]]:
        """Positions of the runs by content, so few contents at a time that all there is to know of them fits."""
        alike: dict[Content, list[int]] = {}
        for index, run in enumerate(runs):
            alike.setdefault(run.content, []).append(index)
        groups = list(alike.values())
        largest = max((run.slot.end - run.slot.start for run in runs), default=1)
        count = max(1, BATCH_BYTES // largest)
        for start in range(0, len(groups), count):
            yield groups[start : start + count]

    def _look(self, groups: Sequence[Sequence[Run]], widened: bool) -> torch.Tensor:
        """How near each run is to failing, (2, runs) float32 as `Strain`; runs are in groups of equal content."""
        runs = [run for group in groups for run in group]
        entries = self._entries([group[0] for group in groups], widened)
        known = [entry for entry, group in zip(entries, groups, strict=True) for _ in group]
        seen = outputs(self._card, runs)
        misfits = [0.0 if _fits(each, entry.answers) else torch.inf for each, entry in zip(seen, known, strict=True)]
        if any(misfits):
            return _as_errors(torch.tensor(misfits, device=self._card.device))
        found = _as_errors(self._changed(runs, [entry.inputs for entry in known]))
        for number in range(len(runs[0].plan.outputs)):
            strain = self._strain([each[number] for each in seen], [entry.answers[number] for entry in known])
            found = torch.maximum(found, strain)
        return found

    def _entries(self, runs: Sequence[Run], widened: bool) -> list[Entry]:
        """What is known of the contents of runs, all different; worked out where nothing is."""
        keys = [self._key(run) for run in runs]
        entries = [self._memory.recall(key, widened=widened) for key in keys]
        unknown = [run for run, entry in zip(runs, entries, strict=True) if entry is None]
        fresh = self._timed([run for run in unknown if run.content.draw == TIMED])
        return [
            self._learn(key, run, fresh, widened) if entry is None else entry
            for key, run, entry in zip(keys, runs, entries, strict=True)
        ]

    def _key(self, run: Run) -> Key:
        content = run.content
        return Key(self._subject.digest, run.plan.shape.key, content.draw, content.seed, content.stream)

    def _learn(self, key: Key, run: Run, fresh: Mapping[int, Tensors], widened: bool) -> Entry:
        """Work out the answers to a content, and remember them with the inputs, unless these are timed content."""
        timed = run.content.draw == TIMED
        inputs = fresh[key.stream] if timed else inputs_before(self._card, self._subject.operator, run)
        entry = Entry(self._derive(run, inputs, widened), widened, () if timed else inputs)
        self._memory.keep(key, entry)
        return entry

    def _timed(self, runs: Sequence[Run]) -> Mapping[int, Tensors]:
        """By stream, the inputs of runs on timed content of one seed, made again by kernels of ours."""
        if not runs:
            return {}
        shape, seed = runs[0].plan.shape, runs[0].content.seed
        streams = [run.content.stream for run in runs]
        return timed_inputs(self._card, self._subject.operator, shape, seed, streams)

    def _changed(self, runs: Sequence[Run], given: Sequence[Tensors]) -> torch.Tensor:
        """Infinite for runs that changed an input that they may not change, zero for others, (runs,).

        Args:
            runs: The runs.
            given: What each of them was given; of runs on timed content, which is made again where it is looked at,
                nothing.
        """
        operator, shape, content = self._subject.operator, runs[0].plan.shape, runs[0].content
        if content.draw == TIMED:
            contents = [(run.content.stream, run.slot.buffers) for run in runs]
            return _infinite(self._card.departures(operator, shape, content.seed, contents) > 0)
        after = look(self._card, input_views(operator, shape), runs)
        found = torch.zeros(len(runs), dtype=torch.bool, device=self._card.device)
        for number, item in enumerate(operator.given):
            if not item.mutable:
                before = [each[number] for each in given]
                found |= self._card.differences(before, [each[number] for each in after]) > 0
        return _infinite(found)

    def _strain(self, seen: Sequence[torch.Tensor], answers: Sequence[Answer]) -> torch.Tensor:
        """How near outputs are to the bounds of their answers, (2, runs)."""
        exact = [answer for answer in answers if isinstance(answer, Exact)]
        if exact:
            return _as_errors(_infinite(self._card.differences(seen, [answer.values for answer in exact]) > 0))
        near = [answer for answer in answers if isinstance(answer, Near)]
        return self._card.strains(seen, near)

    def _derive(self, run: Run, inputs: Tensors, widened: bool) -> tuple[Answer, ...]:
        reference = expect(self._subject, run, inputs)
        evidence = Evidence(
            operator=self._subject.operator,
            shape=run.plan.shape,
            draw=run.content.draw,
            inputs=inputs,
            inputs_after=inputs,
            outputs=reference.native,
            reference=reference,
        )
        return derive(evidence, widened=widened)


def _as_errors(found: torch.Tensor) -> torch.Tensor:
    return torch.stack([found, torch.zeros_like(found)])


def _infinite(found: torch.Tensor) -> torch.Tensor:
    return torch.where(found, torch.inf, 0.0)


def _fits(seen: Tensors, answers: Sequence[Answer]) -> bool:
    """Whether outputs have the dtypes and shapes of their answers."""
    return [(tensor.dtype, tensor.shape) for tensor in seen] == [answer.kind for answer in answers]
