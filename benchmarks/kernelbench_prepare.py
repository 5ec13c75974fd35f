"""Operators of KernelBench's problems, made ready before a card: imported, seeded, admitted by mutation testing.

    python -m benchmarks.kernelbench_prepare PATH --folder prepared                    # all, default contract
    python -m benchmarks.kernelbench_prepare PATH --folder prepared --contracts strict,bfloat16 --lot --processes 32

PATH is the folder with `level1`, `level2`, `level3` of a checkout of KernelBench, at the commit of
`kernelbench_lot.tsv`. `--folder` gets an operator's folder per contract and problem, and a line per problem in
`prepared.jsonl`; a run goes on where an earlier one ended, and tries again what a process failed at. `--processes`
problems are prepared at the same time, each by a process per step, the largest first. The folder is all that a card's
host needs besides this repository.

Contracts:
- `default`: the problem as published. TF32 is allowed to kernel and baselines if PyTorch's defaults use it there.
- `strict`: no TF32 anywhere. A problem whose default contract is strict already has no row of its own.
- `bfloat16`: module and inputs cast to bfloat16 as KernelBench's evaluator does for `precision="bf16"`.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.figures import LineLog, Row
from benchmarks.kernelbench_lot import ListedProblem, read_list
from service.cli.new import read_problem
from service.errors import InvalidInput, ServiceError
from service.fleet.kernelbench import ImportedOperator, KernelbenchImporter, SourceFile
from service.operators.kernelbench import files_of_operator, name_of_problem
from service.operators.shapes import all_shapes
from workers.protocol import Operator, TraceJob

DEFAULT, STRICT, BFLOAT16 = "default", "strict", "bfloat16"
CONTRACTS = (DEFAULT, STRICT, BFLOAT16)
TARGET = "sm_90"
PREPARED = "prepared.jsonl"
GATE = "gate.json"
"""Mutation report in an operator's folder."""
GATE_S = 240.0
"""Seconds for export and mutation testing of one problem; a model of a hundred layers takes a minute."""
DRAFT_S = 100.0
"""Seconds of a processor for one draft of a seed, of up to three with fewer and fewer ranges."""
NOT_PREPARED, NO_SEED = "not prepared: ", "no kernel to start from: "
"""Beginnings of reasons: a process failed, and TorchInductor wrote no seed."""
BASELINES = ("compile", "max_autotune")
"""Baselines of the campaign besides eager PyTorch."""
NARROWING = '''

def _narrowed(made, module):
    """Cast the module and its inputs as KernelBench's evaluator does for bf16."""

    def __init__(self, *args, **kwargs):
        made(self, *args, **kwargs)
        self.to(torch.bfloat16)

    module.__init__ = __init__


def _narrow_inputs(published):
    def get_inputs():
        return [_narrow(each) for each in published()]

    return get_inputs


def _narrow(value):
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(torch.bfloat16) if is_float else value


_narrowed(Model.__init__, Model)
get_inputs = _narrow_inputs(get_inputs)
'''
"""End of a problem's text under the contract `bfloat16`."""


def text_for(source: str, contract: str) -> str:
    """Return a problem's text under a contract."""
    return f"{source.rstrip()}{NARROWING}" if contract == BFLOAT16 else source


class ProblemPreparation:
    """Processes that prepare problems, one at a time.

    Args:
        root: Folder of the problems.
        folder: Folder of operators.
        importer: Its processes.
    """

    def __init__(self, root: Path, folder: Path, importer: KernelbenchImporter) -> None:
        self._root, self._folder, self._importer = root, folder, importer

    async def prepare(self, key: str, contract: str) -> Row:
        """Prepare one problem; return its line."""
        started = time.monotonic()
        name = name_of_problem((self._root / key).resolve())
        row: Row = {"problem": key, "contract": contract, "operator": name, "seeds": 0, "reason": "", "gate": None}
        try:
            text = text_for(read_problem(self._root / key), contract)
            imported = await self._importer.operator(SourceFile(text, name, strict=contract == STRICT))
            row |= await self._kept(self._folder / contract / name, imported)
        except InvalidInput as error:
            row["reason"] = error.detail
        except ServiceError as error:
            row["reason"] = f"{NOT_PREPARED}{error}"
        return {**row, "prepare_s": round(time.monotonic() - started, 1)}

    async def _kept(self, home: Path, imported: ImportedOperator) -> Row:
        operator = imported.operator.model_copy(update={"baselines": BASELINES})
        home.mkdir(parents=True, exist_ok=True)
        for file, text in files_of_operator(operator, imported.notes).items():
            (home / file).write_text(text)
        told: Row = {"seeds": len(operator.seeds), "allow_tf32": operator.precision.allow_tf32}
        if not operator.seeds:
            return {**told, "reason": f"{NO_SEED}{imported.no_seed}"}
        report = await self._importer.trace(_job(operator))
        if report.gate is None:
            return {**told, "reason": "" if report.graphs else f"the reference does not export: {report.reason}"}
        (home / GATE).write_text(report.gate.model_dump_json())
        return {**told, "gate": report.gate.verdict, "gate_reason": report.gate.reason}


def _job(operator: Operator) -> TraceJob:
    shapes = all_shapes(operator, seed=0)
    return TraceJob(
        id="campaign", search="campaign", operator=operator, shapes=shapes, target=TARGET, deadline_s=GATE_S
    )


def has_own_row(contract: str, prepared: Iterable[Row], key: str) -> bool:
    """Return False for the strict contract of a problem whose default contract allows no TF32."""
    rows = (row for row in prepared if row["problem"] == key and row["contract"] == DEFAULT)
    return contract != STRICT or any(row.get("allow_tf32") for row in rows)


async def prepare(
    root: Path, problems: Sequence[ListedProblem], contracts: Sequence[str], folder: Path, processes: int = 1
) -> None:
    """Prepare problems that have no line yet, several at the same time. The last level, with whole models, is first."""
    waiting = sorted((each.key for each in problems), key=lambda key: key.partition("/")[0], reverse=True)
    with closing(LineLog(folder / PREPARED)) as lines:
        done = [row for row in lines.rows if not row["reason"].startswith(NOT_PREPARED)]
        known = {(row["problem"], row["contract"]) for row in done}

        async def work() -> None:
            while waiting:
                async with KernelbenchImporter(target=TARGET, draft_s=DRAFT_S) as importer:
                    await prepare_some(ProblemPreparation(root, folder, importer))

        async def prepare_some(preparation: ProblemPreparation) -> None:
            """Prepare until a process fails: its successors would all fail."""
            while waiting:
                key = waiting.pop(0)
                for contract in (each for each in contracts if (key, each) not in known):
                    if has_own_row(contract, lines.rows, key):
                        row = await preparation.prepare(key, contract)
                        lines.add(row)
                        print(json.dumps(row), flush=True)
                        if row["reason"].startswith(NOT_PREPARED):
                            return

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(processes, len(waiting))):
                tasks.create_task(work())


def main() -> None:
    """Prepare the problems of the list."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("path", type=Path, help="the folder with level1, level2, …")
    options.add_argument("--folder", type=Path, default=Path("prepared"), help="folder of operators")
    options.add_argument("--contracts", default=DEFAULT, help=f"of {', '.join(CONTRACTS)}, with commas")
    options.add_argument("--lot", action="store_true", help="problems of the lot alone")
    options.add_argument("--only", nargs="+", help="these problems alone, such as level1/19_ReLU.py")
    options.add_argument("--processes", type=int, default=1, help="problems prepared at the same time, a core each")
    chosen = options.parse_args()
    _, listed = read_list()
    problems = [each for each in listed if (each.drawn or not chosen.lot) and each.key in (chosen.only or (each.key,))]
    contracts = chosen.contracts.split(",")
    asyncio.run(prepare(chosen.path, problems, contracts, chosen.folder, chosen.processes))


if __name__ == "__main__":
    main()
