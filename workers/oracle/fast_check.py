"""The fast check of runs: one pass over every output, and one over every input, recognised by its checksum.

A run that it does not clear is only a suspect: the table of checks decides if it fails.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch

from workers.checks import CheckEvidence
from workers.commands import TIMED, InputContent
from workers.oracle.answer_cache import AnswerCache, AnswerKey, CachedAnswer
from workers.oracle.answers import Answer, ExactAnswer, FloatAnswer, derive
from workers.oracle.base import OracleCard, OracleSubject, PlanRun, Tensors
from workers.oracle.views import expect, input_views, inputs_before, outputs, timed_inputs
from workers.protocol import Shape


class ErrorMargin(NamedTuple):
    """Errors of a run relative to their bounds; the run is right if both are at most 1.

    Attributes:
        error: Largest error over its bound; infinite if an input changed, or an output has another dtype or shape.
        bias: Bias of the errors over its limit.
    """

    error: float
    bias: float

    @property
    def is_right(self) -> bool:
        """True if the run needs no closer look."""
        return max(self) <= 1


BATCH_BYTES = 4 * 2**30
"""Bytes of slots whose inputs and answers are in memory at once; these take up to twice as much."""


class FastCheck:
    """Checks runs of one shape; `memory` keeps answers from look to look, if it `keeps` any."""

    def __init__(self, card: OracleCard, subject: OracleSubject, memory: AnswerCache, *, keeps: bool = True) -> None:
        self._card = card
        self._subject = subject
        self._memory = memory
        self._keeps = keeps

    def knows(self, run: PlanRun) -> bool:
        """Return True if the answer to a run's content is cached."""
        return self._memory.recall(self._key(run), widened=False) is not None

    def margins(self, runs: Sequence[PlanRun], *, widened: bool = False) -> list[ErrorMargin]:
        """Return the error margin of each run.

        Args:
            runs: All of one shape; either all on timed content of one seed, or none.
            widened: True if results may move as far as nudged inputs move them; more expensive the first time.
        """
        positions: list[int] = []
        found: list[torch.Tensor] = []
        for groups in self._batches(runs):
            positions += [index for group in groups for index in group]
            found.append(self._look([[runs[index] for index in group] for group in groups], widened))
        margins = torch.cat(found, dim=1).T.tolist() if found else []
        return [ErrorMargin(*margin) for _, margin in sorted(zip(positions, margins, strict=True))]

    def _batches(self, runs: Sequence[PlanRun]) -> Iterator[list[list[int]]]:
        """Yield positions of the runs by content, with so few contents at a time that everything about them fits."""
        alike: dict[InputContent, list[int]] = {}
        for index, run in enumerate(runs):
            alike.setdefault(run.content, []).append(index)
        groups = list(alike.values())
        largest = max((run.slot.end - run.slot.start for run in runs), default=1)
        count = max(1, BATCH_BYTES // largest)
        for start in range(0, len(groups), count):
            yield groups[start : start + count]

    def _look(self, groups: Sequence[Sequence[PlanRun]], widened: bool) -> torch.Tensor:
        """Return the margins of runs in groups of equal content, (2, runs) float32 as `ErrorMargin`.

        If one output has another dtype or shape, no run is cleared.
        """
        runs = [run for group in groups for run in group]
        entries = self._entries([group[0] for group in groups], widened)
        known = [entry for entry, group in zip(entries, groups, strict=True) for _ in group]
        seen = outputs(self._card, runs)
        if not all(_fits(each, entry.answers) for each, entry in zip(seen, known, strict=True)):
            return _as_errors(torch.full((len(runs),), torch.inf, device=self._card.device))
        found = _as_errors(self._changed(runs, [entry.sums for entry in known]))
        for number in range(len(runs[0].plan.outputs)):
            margin = self._margin([each[number] for each in seen], [entry.answers[number] for entry in known])
            found = torch.maximum(found, margin)
        return found

    def _entries(self, runs: Sequence[PlanRun], widened: bool) -> list[CachedAnswer]:
        """Return the entries of the runs' contents, all different; missing ones are computed."""
        keys = [self._key(run) for run in runs]
        entries = [self._memory.recall(key, widened=widened) for key in keys]
        unknown = {key: run for key, run, entry in zip(keys, runs, entries, strict=True) if entry is None}
        learned = self._learn(unknown, widened) if unknown else {}
        return [entry or learned[key] for key, entry in zip(keys, entries, strict=True)]

    def _key(self, run: PlanRun) -> AnswerKey:
        content = run.content
        return AnswerKey(self._subject.digest, run.plan.shape.key, content.draw, content.seed, content.stream)

    def _learn(self, unknown: Mapping[AnswerKey, PlanRun], widened: bool) -> dict[AnswerKey, CachedAnswer]:
        """Compute the answers to contents, and cache them with the checksums of their inputs."""
        given = self._given(unknown)
        sums = self._sums_of(list(given.values()), next(iter(unknown.values())).plan.shape)
        learned = {}
        for (key, run), each in zip(unknown.items(), sums, strict=True):
            begun = time.perf_counter()  # Bounds end in numbers of the host, so the card's work is included.
            learned[key] = CachedAnswer(self._derive(run, given.pop(key), widened), widened, tuple(each))
            if self._keeps:
                self._memory.keep(key, learned[key], time.perf_counter() - begun)
        return learned

    def _given(self, unknown: Mapping[AnswerKey, PlanRun]) -> dict[AnswerKey, Tensors]:
        """Return inputs of runs, made again: timed content, which is of one seed, by support kernels."""
        operator = self._subject.operator
        timed = [run for run in unknown.values() if run.content.draw == TIMED]
        made: Mapping[int, Tensors] = {}
        if timed:
            streams = [run.content.stream for run in timed]
            made = timed_inputs(self._card, operator, timed[0].plan.shape, timed[0].content.seed, streams)
        return {
            key: made[key.stream] if key.draw == TIMED else inputs_before(self._card, operator, run)
            for key, run in unknown.items()
        }

    def _sizes(self, shape: Shape) -> list[int]:
        """Return the bytes of the inputs."""
        return [view.end_bytes for view in input_views(self._subject.operator, shape)]

    def _sums_of(self, given: Sequence[Tensors], shape: Shape) -> list[list[int]]:
        """Return checksums of the inputs of runs."""
        inputs = [[tensor.contiguous() for tensor in tensors] for tensors in given]
        memory = [[tensor.data_ptr() for tensor in tensors] for tensors in inputs]
        return self._card.sums(memory, self._sizes(shape), self._memory.key).tolist()

    def _changed(self, runs: Sequence[PlanRun], expected: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """Return infinity for runs that changed an input whose memory is no output, zero for others, (runs,).

        The checksums of the inputs before the run are expected.
        """
        sizes, given = self._sizes(runs[0].plan.shape), self._subject.operator.given
        overwritten = [
            [item.mutable and number in run.plan.overwritten for number, item in enumerate(given)] for run in runs
        ]
        memory = [
            [self._card.address(offset, size) for offset, size in zip(run.slot.buffers, sizes, strict=False)]
            for run in runs
        ]
        before = torch.tensor(expected, dtype=torch.int64).reshape(len(runs), len(sizes))
        found = self._card.sums(memory, sizes, self._memory.key)
        changed = (found != before.to(found.device, non_blocking=True)) & ~torch.tensor(overwritten).to(found.device)
        return _infinite(changed.any(1))

    def _margin(self, seen: Sequence[torch.Tensor], answers: Sequence[Answer]) -> torch.Tensor:
        """Return margins of outputs against their answers, (2, runs)."""
        exact = [answer for answer in answers if isinstance(answer, ExactAnswer)]
        if exact:
            return _as_errors(_infinite(self._card.differences(seen, [answer.values for answer in exact]) > 0))
        near = [answer for answer in answers if isinstance(answer, FloatAnswer)]
        return self._card.margins(seen, near)

    def _derive(self, run: PlanRun, inputs: Tensors, widened: bool) -> tuple[Answer, ...]:
        reference = expect(self._subject, run, inputs)
        evidence = CheckEvidence(
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
    """Return True if outputs have the dtypes and shapes of their answers."""
    return [(tensor.dtype, tensor.shape) for tensor in seen] == [answer.kind for answer in answers]
