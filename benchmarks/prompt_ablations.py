"""Prompt ablations: equal prompts with and without a part, answered by a model, and judged.

    REEF_DATA_DIR=DATA reef search softmax --emitters tune,rewrite --evaluations 24 --json      # 1. parents to show
    python -m benchmarks.prompt_ablations write DATA --out dist/ablations                        # 2. prompts, sizes
    ...                                                     # 3. a model answers each: X.md is answered in X.answer.md
    python -m benchmarks.prompt_ablations judge DATA --out dist/ablations                        # 4. the table

The prompts are those of the strategy `improve`, for the same parents and facts in each variant. A variant lacks one
part: the best so far, the page on Triton, the changes that models tried (lessons), or readings and times. A part that
the search has nothing for cannot be left out: then there is no file, and the table says so. `write` alone needs no
model; its sizes are the parts' shares of the prompt in bytes. Each answer must come from its prompt alone.
"""

import argparse
import asyncio
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from archive.records import SearchRecord
from archive.store import Store
from benchmarks import record
from service.emitters.base import LlmContext, Parent, ProposalContext
from service.emitters.llm.answer_faults import UnusableAnswer
from service.emitters.llm.answers import read_answer
from service.emitters.llm.prompts import API, HEADINGS, prompt
from service.emitters.llm.rendering import RenderedPrompt
from service.emitters.llm.strategies import IMPROVE, Approach
from service.emitters.llm.templates import fan_out
from service.evaluation.single import Judge
from service.fleet.devices import read_device
from service.generation.contexts import ContextBuilder
from service.llm.base import LlmAnswer, LlmPrompt, Purpose
from workers.protocol import Operator

FIRST_ORDINAL = 10_000
"""Ordinal of the first prompt: it draws the parents, and no search has so many candidates."""
MOST_VARIATIONS = 3
"""Variations of a template that are judged, as in a search."""
ALL = "all"


class NoModel:
    """Client that no prompt is asked of: prompts are only written."""

    async def __call__(self, prompt: LlmPrompt, purpose: Purpose, backend: str | None = None) -> LlmAnswer:
        """Refuse.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("prompts are only written here")

    def available(self, backends: Sequence[str]) -> tuple[str, ...]:
        """Return all backends."""
        return tuple(backends)

    def require_open(self, backends: Sequence[str]) -> None:
        """Accept all backends."""


def without_readings(parent: Parent) -> Parent:
    """Return a kernel without what was read and timed; its objective stays."""
    return replace(parent, readings={}, times=(), limiter="")


VARIANTS: Mapping[str, Callable[[LlmContext, Approach], tuple[LlmContext, Approach]]] = {
    ALL: lambda llm, found: (llm, found),
    "no_best": lambda llm, found: (replace(llm, best=None), found),
    "no_api": lambda llm, found: (llm, found),
    "no_lessons": lambda llm, found: (replace(llm, changes=()), found),
    "no_readings": lambda llm, found: (
        replace(llm, neighbours=tuple(map(without_readings, llm.neighbours))),
        replace(found, parents=tuple(map(without_readings, found.parents))),
    ),
}
"""Variants by name. `no_api` leaves a section out of the finished text: it has no facts of the search."""


def written(context: ProposalContext, llm: LlmContext, variant: str) -> RenderedPrompt:
    """Write one variant of a prompt."""
    shown, found = VARIANTS[variant](llm, Approach(IMPROVE, "manual", context.parents[:1]))
    rendered = prompt(context, shown, found)
    if variant != "no_api":
        return rendered
    kept = [f"# {name}\n\n{text}" for name, text in sections(rendered.user).items() if name != API]
    return replace(rendered, user="\n\n".join(kept) + "\n")


def sections(user: str) -> dict[str, str]:
    """Split a prompt by its headings."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in user.splitlines():
        if line.startswith("# ") and line[2:] in HEADINGS and line[2:] not in found:
            name = line[2:]
            found[name] = []
        elif name:
            found[name].append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in found.items()}


async def contexts(data: Path, number: int) -> tuple[SearchRecord, Operator, list[ProposalContext]]:
    """Read the newest search of a data folder, and build the contexts of some proposals for it."""
    store = await Store.open(f"sqlite+aiosqlite:///{data / 'reef.db'}")
    try:
        search = (await store.searches.list())[0]
        operator = Operator.model_validate_json((await store.operators.get(search.operator)).document)
        builder, found = ContextBuilder(store), []
        for ordinal in range(FIRST_ORDINAL, FIRST_ORDINAL + number):
            context = await builder.write(search, operator, ordinal, (), NoModel(), None)  # type: ignore[arg-type]
            found.append(context)
    finally:
        await store.close()
    return search, operator, found


async def write_prompts(data: Path, out: Path, number: int) -> list[dict[str, Any]]:
    """Write all prompts of a search; returns the sizes of their parts, by variant."""
    _, operator, found = await contexts(data, number)
    folder, sizes = out / operator.name, dict[str, list[dict[str, int]]]()
    folder.mkdir(parents=True, exist_ok=True)
    for place, context in enumerate(found):
        assert context.llm is not None
        whole = written(context, context.llm, ALL)
        for variant in VARIANTS:
            rendered = written(context, context.llm, variant)
            if variant != ALL and rendered.user == whole.user:
                continue
            text = f"{rendered.system}\n\n{rendered.user}"
            (folder / f"{place}.{variant}.md").write_text(text)
            parts = {name: len(part.encode()) for name, part in sections(rendered.user).items()}
            sizes.setdefault(variant, []).append({"system": len(rendered.system.encode()), **parts})
    return [
        {"operator": operator.name, "variant": variant, "prompts": len(each), "bytes": _means(each)}
        for variant, each in sizes.items()
    ]


def _means(found: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for each in found for name in each)
    means = {name: round(statistics.fmean(each.get(name, 0) for each in found)) for name in names}
    return {"total": sum(means.values()), **means}


async def judged(data: Path, out: Path, number: int, device: str) -> list[dict[str, Any]]:
    """Judge all answers to the prompts of a search; returns a row per variant, and one per answer."""
    _, operator, found = await contexts(data, number)
    rows = []
    async with Judge(operator, read_device(device, "--device")) as judge:
        for variant in VARIANTS:
            answers = []
            for place, context in enumerate(found):
                path = out / operator.name / f"{place}.{variant}.answer.md"
                if path.exists():
                    one = await _judge_one(judge, operator, context.parents[0].source, path.read_text())
                    answers.append({"prompt": place, "parent": context.parents[0].candidate, **one})
                    print(operator.name, variant, answers[-1], flush=True)
            rows.append({"operator": operator.name, "variant": variant, "device": device, **_summary(answers)})
    return rows


async def _judge_one(judge: Judge, operator: Operator, parent: str, text: str) -> dict[str, Any]:
    """Judge the candidate of an answer, or the first variations of its template: the best counts."""
    try:
        answered = read_answer(text, operator.entry, parent)
    except UnusableAnswer as error:
        return {"outcome": error.fault.value, "speedup": None}
    sources = [answered.source]
    if answered.template is not None:
        drawn = fan_out(answered.source, answered.template, MOST_VARIATIONS, random.Random(0))
        sources = [source for source, _ in drawn]
    verdicts = [await judge.judge(source) for source in sources]
    speedups = [each.best.speedup.low for each in verdicts if each.best is not None and each.best.speedup is not None]
    return {"outcome": verdicts[0].outcome.value, "speedup": round(max(speedups), 4) if speedups else None}


def _summary(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    speedups = [each["speedup"] for each in answers if each["speedup"] is not None]
    return {
        "answers": len(answers),
        "first_try_valid": sum(each["outcome"] == "correct" for each in answers),
        "best": max(speedups, default=None),
        "geometric_mean": round(statistics.geometric_mean(speedups), 4) if speedups else None,
        "each": list(answers),
    }


def main() -> None:
    """Write prompts, or judge answers."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("step", choices=("write", "judge"))
    options.add_argument("data", type=Path, nargs="+", help="data folders, each with one search")
    options.add_argument("--prompts", type=int, default=6, help="per search")
    options.add_argument("--device", default="model:sm_90")
    options.add_argument("--out", type=Path, required=True, help="a folder for prompts and answers")
    options.add_argument("--results", type=Path, default=record.RESULTS, help="a folder for the table")
    options.add_argument("--model", default="", help="name of the model that answered")
    chosen = options.parse_args()
    rows: list[dict[str, Any]] = []
    for data in chosen.data:
        if chosen.step == "write":
            rows += asyncio.run(write_prompts(data, chosen.out, chosen.prompts))
        else:
            rows += asyncio.run(judged(data, chosen.out, chosen.prompts, chosen.device))
    name, more = ("prompt_sizes", {}) if chosen.step == "write" else ("prompt_ablations", {"model": chosen.model})
    print(record.write(name, rows, chosen.results, **more))


if __name__ == "__main__":
    main()
