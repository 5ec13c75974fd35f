"""Prompts for the lot of KernelBench's problems, and a model's answers as a recording.

    python -m benchmarks.kernelbench_answers ask --folder prepared --out questions       # 1. OPERATOR.scratch.md
    ...                            # 2. a model answers in OPERATOR.scratch.1.answer.md, OPERATOR.scratch.2.answer.md, …
    python -m benchmarks.kernelbench_answers record --folder prepared --out questions --model NAME          # 3.
    python -m benchmarks.kernelbench_answers ask --folder prepared --out more --lines lines       # after a sitting

`kernelbench_prepare` makes `--folder`. The prompts are those of the strategy `scratch`: the operator, the device and
the page on Triton, but no kernel. Each answer must come from its prompt alone. With `--lines`, a folder of a campaign's
lines, problems are asked for again whose best kernel is not faster than torch.compile: to improve it, and to repair a
kernel of the model that was refused, as a search asks. `record` adds to `kernelbench_answers.jsonl.xz`: a line per
answer, which the backend `replay` reads, with the kernel that was found in it. The campaign takes the kernels from
there (`kernelbench_campaign --how model`).
"""

import argparse
import json
import lzma
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.comparison_report import best
from benchmarks.figures import Row, read_folder, read_lines
from benchmarks.kernelbench_lot import LOT, read_list
from benchmarks.kernelbench_prepare import DEFAULT, PREPARED
from benchmarks.kernelbench_queue import MODEL
from benchmarks.models import read_recording
from benchmarks.prompt_ablations import NoModel
from benchmarks.record import RESULTS
from service.emitters.base import LlmContext, Parent, ProposalContext, ShapeTiming
from service.emitters.llm.answer_faults import UnusableAnswer
from service.emitters.llm.answers import read_answer
from service.emitters.llm.prompts import prompt
from service.emitters.llm.strategies import IMPROVE, REPAIR, SCRATCH, Approach
from service.llm.base import Completion, LlmPrompt, digest
from service.operators.catalogue import load_operator
from workers.protocol import Operator, Outcome
from workers.protocol.kernelbench import takes_module

RECORDING = RESULTS / "kernelbench_answers.jsonl.xz"
DEVICE, TARGET, COMPILERS = "h200", "sm_90", ("3.6",)
"""Device, target and release of Triton that the prompts speak of: those of the campaign's cards."""
REPAIRED = (Outcome.PRECISION, Outcome.WRONG_RESULT, Outcome.COMPILE_ERROR)
"""Outcomes of kernels that are worth a repair: their reasons say what is wrong."""


def problems(folder: Path, contract: str, listed: Path) -> Iterator[Operator]:
    """Load the operators of the lot that were prepared."""
    drawn = {each.key for each in read_list(listed)[1] if each.drawn}
    for row in read_lines(folder / PREPARED):
        if row["contract"] == contract and row["problem"] in drawn and row["seeds"] and not row["reason"]:
            yield load_operator(folder / contract / row["operator"])


def question(operator: Operator, found: Approach, failures: Sequence[Parent] = ()) -> LlmPrompt:
    """Write the prompt of an approach for an operator."""
    spec = operator.model_dump(mode="json")
    facts = ProposalContext(spec, TARGET, found.parents, (), random.Random(0), compilers=COMPILERS)
    llm = LlmContext(
        search="",
        ordinal=0,
        device=DEVICE,
        ask=NoModel(),
        tools=None,  # type: ignore[arg-type]
        backends=("manual",),
        strategies=(found.strategy,),
        failures=tuple(failures),
    )
    rendered = prompt(facts, llm, found)
    return LlmPrompt(rendered.system, rendered.user)


def questions(operator: Operator, row: Row | None, answers: Sequence[str]) -> Iterator[tuple[str, LlmPrompt]]:
    """Write the prompts for an operator, each with its name.

    Args:
        operator: The operator.
        row: What a campaign found out about it; None before that.
        answers: Kernels that a model has written for it.
    """
    if row is None:
        yield SCRATCH, question(operator, Approach(SCRATCH, "manual", ()))
        return
    judged = [(each["number"], _judged(answers, each)) for each in row["answered"]]
    refused = [(number, kernel) for number, kernel in judged if kernel.outcome in REPAIRED]
    for number, kernel in refused[:1]:
        yield f"{REPAIR}-{number}", question(operator, Approach(REPAIR, "manual", (kernel,)))
    if row.get("source"):
        low, mid, high = row["reef_low_us"], row["reef_us"], row["reef_high_us"]
        timing = ShapeTiming(row["shape"], 1.0, mid, low, high, row["floor_us"])
        outcome, over = Outcome.CORRECT.value, row["ratios"]["compile"]["low"]
        parent = Parent("best", row["source"], row["configuration"], over, outcome=outcome, times=(timing,))
        yield IMPROVE, question(operator, Approach(IMPROVE, "manual", (parent,)), [kernel for _, kernel in refused])


def _judged(answers: Sequence[str], told: Row) -> Parent:
    number = told["number"]
    source = answers[number - 1]
    return Parent(f"answer-{number}", source, outcome=told["outcome"] or "", reason=told["reason"])


def lost(lines: Sequence[Row], contract: str) -> dict[str, Row]:
    """Return the rows, by operator, whose best kernel is not faster than torch.compile; those without one, too."""
    rows = (row for row in best(lines) if (row.get("contract"), row.get("how")) == (contract, MODEL))
    return {row["operator"]: row for row in rows if row.get("answered") and not _wins(row)}


def _wins(row: Row) -> bool:
    ratio = (row.get("ratios") or {}).get("compile")
    return ratio is not None and ratio["mid"] > 1.0


def ask(asked: Iterable[tuple[Operator, Sequence[tuple[str, LlmPrompt]]]], out: Path) -> int:
    """Write each prompt into a file to read and one to record; returns their number."""
    out.mkdir(parents=True, exist_ok=True)
    count = 0
    for operator, prompts in asked:
        for name, each in prompts:
            (out / f"{operator.name}.{name}.md").write_text(f"{each.system}\n\n{each.user}")
            (out / f"{operator.name}.{name}.json").write_text(json.dumps(asdict(each)))
            count += 1
    return count


def lines_of(operators: Iterable[Operator], contract: str, out: Path, model: str) -> Iterator[dict[str, Any]]:
    """Read the answers beside the prompts, each as a line of a recording."""
    for operator in operators:
        as_module = takes_module(operator.reference)
        for file in sorted(out.glob(f"{operator.name}.*.*.answer.md")):
            stem = file.name.removesuffix(".answer.md").rpartition(".")[0]
            asked = LlmPrompt(**json.loads((out / f"{stem}.json").read_text()))
            text, source, fault = file.read_text(), None, ""
            try:
                source = read_answer(text, operator.entry, as_module=as_module).source
            except UnusableAnswer as error:
                fault = error.fault.value
            yield {
                "prompt": digest(asked),
                "completion": asdict(Completion(text, model, 0, 0, None)),
                "asked": asdict(asked),
                "operator": operator.name,
                "contract": contract,
                "source": source,
                "fault": fault,
            }


def recorded_kernels(recording: Path, contract: str) -> dict[str, tuple[str, ...]]:
    """Return the kernels of a recording that a model wrote, by operator; none if there is no recording."""
    found = read_recording(recording) if recording.exists() else {}
    return {
        operator: tuple(line["source"] for line in lines if line["contract"] == contract and line["source"] is not None)
        for operator, lines in found.items()
    }


def main() -> None:
    """Write prompts, or record answers."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("step", choices=("ask", "record"))
    options.add_argument("--folder", type=Path, default=Path("prepared"), help="folder of operators")
    options.add_argument("--contract", default=DEFAULT)
    options.add_argument("--out", type=Path, required=True, help="a folder for prompts and answers")
    options.add_argument("--list", type=Path, default=LOT, help="the problems and the lot")
    options.add_argument("--recording", type=Path, default=RECORDING)
    options.add_argument("--model", default="", help="name of the model that answered")
    options.add_argument("--lines", type=Path, help="lines of a campaign; ask again where it lost")
    chosen = options.parse_args()
    operators = problems(chosen.folder, chosen.contract, chosen.list)
    if chosen.step == "ask":
        rows, known = {}, recorded_kernels(chosen.recording, chosen.contract)
        if chosen.lines is not None:
            rows = lost(read_folder(chosen.lines), chosen.contract)
            operators = (each for each in operators if each.name in rows)
        asked = ((each, list(questions(each, rows.get(each.name), known.get(each.name, ())))) for each in operators)
        print(f"{ask(asked, chosen.out)} prompts are in {chosen.out}")
        return
    lines = list(lines_of(operators, chosen.contract, chosen.out, chosen.model))
    with lzma.open(chosen.recording, "at") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
    usable = sum(line["source"] is not None for line in lines)
    print(f"{usable} kernels of {len(lines)} answers for {len({line['operator'] for line in lines})} problems")


if __name__ == "__main__":
    main()
