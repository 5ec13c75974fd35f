"""Facts are read as they stand: who holds a cell, what a report says, and whose word it is."""

from dataclasses import replace

from archive.records import EMPTY_CELL
from service.evaluation.facts import FactReader
from service.evaluation.jobs import AGAIN, EvaluationCase
from service.evaluation.next_step import CellHolder, CellState
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.reports import addressed
from service.evaluation.unit_of_work import UnitOfWork
from tests.archive.samples import offer, stored_candidate
from tests.service import records
from tests.service.measured import DEVICE
from tests.service.workbench import Workbench
from workers.protocol import Device, Outcome, Ratio, Trust


async def test_what_is_known_of_a_case_and_its_cell(card: Workbench) -> None:
    search = await card.begin(evaluations=3)
    candidate = await card.store.candidates.get(await stored_candidate(card.store, search.id, 50))
    case = EvaluationCase(search, records.OPERATOR, candidate, 0, records.bundle(7).identity, Device.parse(DEVICE))
    unit_of_work = UnitOfWork(card.store, card.dispatcher, card.events)
    facts = FactReader(card.store, unit_of_work, ReferenceSeed(card.store))
    assert await facts.of_cell(case, 3) == CellState()
    figure = Ratio(low=1.1, mid=1.2, high=1.3)
    right = records.report({}, device=case.device, over_pacer=figure, bundle=case.bundle, trust=Trust.C)
    wrong = right.model_copy(update={"kind": "confirm", "outcome": Outcome.HANG, "reason": "x", "trust": Trust.B})
    doubtful = right.model_copy(update={"trust": Trust.D})
    for report, purpose in ((right, None), (doubtful, AGAIN), (wrong, EMPTY_CELL)):
        await unit_of_work.save_report(case, addressed(report, case, purpose))
    known = await facts.of_case(case, None, leads=True)
    assert (known.measures, known.trusted_trace, known.retraced, known.leads) == (True, True, None, True)
    said = [(each.correct, each.trusted, each.speedup, each.incumbent, each.reason) for each in known.reports]
    assert said == [
        (True, False, figure, None, ""),
        (False, False, figure, None, ""),
        (False, True, None, EMPTY_CELL, "hang: x"),
    ]
    held = offer(search.id, candidate.id, 1.0, cell=3, device=DEVICE)
    await card.store.elites.offer(held)
    better = replace(held, job="other", bundle=case.bundle, objective=2.0, low=2.0, mid=2.0, high=2.0)
    await card.store.provisional.hold(better, 0.005)
    assert await facts.of_cell(case, 3) == CellState(
        CellHolder(held.bundle, 1.0, held.mid), CellHolder(case.bundle, 2.0, 2.0)
    )
