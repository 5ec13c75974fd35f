"""Prompts for the lot of KernelBench's problems, and a model's answers as a recording.

    python -m benchmarks.kernelbench_answers ask --folder prepared --out questions       # 1. OPERATOR.md
    ...                            # 2. a model answers in OPERATOR.1.answer.md, OPERATOR.2.answer.md, …
    python -m benchmarks.kernelbench_answers record --folder prepared --out questions --model NAME          # 3.

`kernelbench_prepare` makes `--folder`. The prompts are those of the strategy `scratch`: the operator, the device and
the page on Triton, but no kernel. Each answer must come from its prompt alone. `record` writes
`kernelbench_answers.jsonl.xz`: a line per answer, which the backend `replay` reads, with the kernel that was found in
it. The campaign takes the kernels from there (`kernelbench_campaign --how model`).
"""

import argparse
import json
import lzma
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.figures import read_lines
from benchmarks.kernelbench_lot import LOT, read_list
from benchmarks.kernelbench_prepare import DEFAULT, PREPARED
from benchmarks.models import read_recording
from benchmarks.prompt_ablations import NoModel
from benchmarks.record import RESULTS
from service.emitters.base import LlmContext, ProposalContext
from service.emitters.llm.answer_faults import UnusableAnswer
from service.emitters.llm.answers import read_answer
from service.emitters.llm.prompts import prompt
from service.emitters.llm.strategies import SCRATCH, Approach
from service.llm.base import Completion, LlmPrompt, digest
from service.operators.catalogue import load_operator
from workers.protocol import Operator
from workers.protocol.kernelbench import takes_module

RECORDING = RESULTS / "kernelbench_answers.jsonl.xz"
DEVICE, TARGET, COMPILERS = "h200", "sm_90", ("3.6",)
"""Device, target and release of Triton that the prompts speak of: those of the campaign's cards."""


def problems(folder: Path, contract: str, listed: Path) -> Iterator[Operator]:
    """Load the operators of the lot that were prepared."""
    drawn = {each.key for each in read_list(listed)[1] if each.drawn}
    for row in read_lines(folder / PREPARED):
        if row["contract"] == contract and row["problem"] in drawn and row["seeds"] and not row["reason"]:
            yield load_operator(folder / contract / row["operator"])


def question(operator: Operator) -> LlmPrompt:
    """Write the prompt for an operator."""
    facts = ProposalContext(operator.model_dump(mode="json"), TARGET, (), (), random.Random(0), compilers=COMPILERS)
    llm = LlmContext(
        search="",
        ordinal=0,
        device=DEVICE,
        ask=NoModel(),  # type: ignore[arg-type]
        tools=None,  # type: ignore[arg-type]
        backends=("manual",),
        strategies=(SCRATCH,),
    )
    rendered = prompt(facts, llm, Approach(SCRATCH, "manual", ()))
    return LlmPrompt(rendered.system, rendered.user)


def ask(operators: Iterable[Operator], out: Path) -> int:
    """Write each prompt into a file; returns their number."""
    out.mkdir(parents=True, exist_ok=True)
    found = list(operators)
    for operator in found:
        asked = question(operator)
        (out / f"{operator.name}.md").write_text(f"{asked.system}\n\n{asked.user}")
    return len(found)


def lines_of(operators: Iterable[Operator], contract: str, out: Path, model: str) -> Iterator[dict[str, Any]]:
    """Read the answers beside the prompts, each as a line of a recording."""
    for operator in operators:
        asked, as_module = question(operator), takes_module(operator.reference)
        for file in sorted(out.glob(f"{operator.name}.*.answer.md")):
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
    chosen = options.parse_args()
    operators = problems(chosen.folder, chosen.contract, chosen.list)
    if chosen.step == "ask":
        print(f"{ask(operators, chosen.out)} prompts are in {chosen.out}")
        return
    lines = list(lines_of(operators, chosen.contract, chosen.out, chosen.model))
    with lzma.open(chosen.recording, "wt") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
    usable = sum(line["source"] is not None for line in lines)
    print(f"{usable} kernels of {len(lines)} answers for {len({line['operator'] for line in lines})} problems")


if __name__ == "__main__":
    main()
