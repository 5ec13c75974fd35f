"""The quick look at what a round left: one pass over every timed output, and all its inputs made again.

A run that does not look right is a suspect, no more: whether it fails is for the table of checks to say.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch

from workers.checker.answers import Answer, Exact, Near, derive
from workers.checker.base import Card, Run, Subject, Tensors
from workers.checker.memory import Key, Memory
from workers.checker.sieve import suspects
from workers.checker.sight import expect, input_views, look, outputs, timed_inputs
from workers.checks import Evidence

BATCH_BYTES = 4 * 2**30
"""Bytes of slots whose inputs and answers are at hand at once; these take up to twice as much."""


class Glance:
    """Looks at runs of one shape on timed content of one seed.

    Args:
        card: Holds the arena.
        subject: What is judged by.
        memory: Keeps answers from round to round.
    """

    def __init__(self, card: Card, subject: Subject, memory: Memory) -> None:
        self._card = card
        self._subject = subject
        self._memory = memory

    def suspects(self, runs: Sequence[Run], *, widened: bool = False) -> list[int]:
        """Positions of runs that changed an input or whose outputs are not at once seen to be right.

        Args:
            runs: All of one shape, on timed content of one seed.
            widened: Whether results may move as far as nudged inputs move them; dearer the first time.
        """
        positions: list[int] = []
        flags: list[torch.Tensor] = []
        for streams in self._batches(runs):
            chosen = [index for index, run in enumerate(runs) if run.content.stream in streams]
            positions += chosen
            flags.append(self._look([runs[index] for index in chosen], streams, widened))
        found = torch.cat(flags).tolist() if flags else []
        return sorted(position for position, suspect in zip(positions, found, strict=True) if suspect)

    def _batches(self, runs: Sequence[Run]) -> Iterator[list[int]]:
        """Streams of the runs, so few at a time that all there is to know of them fits."""
        streams = sorted({run.content.stream for run in runs})
        largest = max((run.slot.end - run.slot.start for run in runs), default=1)
        count = max(1, BATCH_BYTES // largest)
        for start in range(0, len(streams), count):
            yield streams[start : start + count]

    def _look(self, runs: Sequence[Run], streams: Sequence[int], widened: bool) -> torch.Tensor:
        """Which of the runs are suspects, (runs,) bool."""
        plan, seed = runs[0].plan, runs[0].content.seed
        given = timed_inputs(self._card, self._subject.operator, plan.shape, seed, streams)
        by_stream = {run.content.stream: run for run in runs}
        answers = {stream: self._answers(run, given[stream], widened) for stream, run in by_stream.items()}
        seen = [outputs(self._card, run) for run in runs]
        right = [answers[run.content.stream] for run in runs]
        misfits = [not _fits(*pair) for pair in zip(seen, right, strict=True)]
        if any(misfits):
            return torch.tensor(misfits, device=self._card.device)
        found = self._changed(runs, given)
        for number in range(len(plan.outputs)):
            found |= self._wrong([each[number] for each in seen], [each[number] for each in right])
        return found

    def _changed(self, runs: Sequence[Run], given: Mapping[int, Tensors]) -> torch.Tensor:
        """Which runs changed an input that they may not change."""
        operator = self._subject.operator
        found = torch.zeros(len(runs), dtype=torch.bool, device=self._card.device)
        views = input_views(operator, runs[0].plan.shape)
        after = [look(self._card, views, run) for run in runs]
        for number, item in enumerate(operator.given):
            if not item.mutable:
                before = [given[run.content.stream][number] for run in runs]
                found |= self._card.differences(before, [each[number] for each in after]) > 0
        return found

    def _wrong(self, seen: Sequence[torch.Tensor], answers: Sequence[Answer]) -> torch.Tensor:
        """Which outputs are not like their answers."""
        exact = [answer for answer in answers if isinstance(answer, Exact)]
        if exact:
            return self._card.differences(seen, [answer.values for answer in exact]) > 0
        near = [answer for answer in answers if isinstance(answer, Near)]
        return suspects(self._card.measure(seen, near), near)

    def _answers(self, run: Run, inputs: Tensors, widened: bool) -> tuple[Answer, ...]:
        shape, content = run.plan.shape, run.content
        key = Key(self._subject.digest, shape.key, content.seed, content.stream)
        answers = self._memory.recall(key, widened=widened)
        if answers is None:
            answers = self._derive(run, inputs, widened)
            self._memory.keep(key, answers, widened=widened)
        return answers

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


def _fits(seen: Tensors, answers: Sequence[Answer]) -> bool:
    """Whether outputs have the dtypes and shapes of their answers."""
    return [(tensor.dtype, tensor.shape) for tensor in seen] == [answer.kind for answer in answers]
