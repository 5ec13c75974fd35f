"""Certificates out of an archive that a search has filled."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from archive.errors import RecordNotFound
from archive.records import SearchState
from service.certificates.certifier import Certifier
from service.certificates.document import Certificate
from tests.service import records
from tests.service.measured import DEVICE, elites, identity, plant, seed
from tests.service.workbench import Answers, Workbench, bundle_of
from workers.protocol import Outcome

RIGHT, WRONG = 10, 15


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    plant(monkeypatch, RIGHT, WRONG)
    bench = await Workbench.open(tmp_path, redis_url)
    wrong = identity(WRONG)
    bench.answers = Answers(
        outcome=lambda job: (
            Outcome.WRONG_RESULT
            if wrong in (getattr(job, "bundle", None) or job.challenger).identity
            else Outcome.CORRECT
        )
    )
    yield bench
    await bench.close()


@pytest.mark.parametrize("device", [records.DEVICE, DEVICE])
async def test_an_elites_certificate_is_that_of_the_report_that_won(bench: Workbench, device: str) -> None:
    bench.devices = (device,)
    search = await bench.run(await bench.begin(evaluations=2))
    assert search.state is SearchState.DONE
    [elite] = await bench.store.elites.list(search.id, device, search.axes_version)
    certifier = Certifier(bench.store)
    written = await certifier.of_candidate(elite.candidate)
    assert written == await certifier.of_elite(search, elite)
    assert written.verdict.job == elite.job and written.traced_alike
    assert written.place is not None and (written.place.cell, written.place.objective) == (elite.cell, elite.objective)
    assert written.speedup is not None and written.speedup.low == pytest.approx(elite.low)
    assert (written.pacer is not None) == (device == DEVICE) == (len(written.earlier) == 1)
    assert (await certifier.of_candidate(elite.candidate, device=device, variant=0)).id == written.id
    bare = await certifier.of_candidate(elite.candidate, with_source=False)
    assert bare.source is None and bare.id != written.id


@pytest.mark.parametrize("device", [records.DEVICE, DEVICE])
async def test_figures_of_a_search_whose_first_seed_was_refused_relate_to_the_second(
    bench: Workbench, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, WRONG, RIGHT)
    wrong = identity(WRONG)
    bench.answers.outcome = lambda job: Outcome.WRONG_RESULT if bundle_of(job).identity == wrong else Outcome.CORRECT
    bench.devices = (device,)
    search = await bench.run(await bench.begin(evaluations=2))
    [elite] = await bench.store.elites.list(search.id, device, search.axes_version)
    written = await Certifier(bench.store).of_elite(search, elite)
    assert written is not None and written.reference_seed == 1
    assert "seed 0 is refused (wrong_result)" in written.refused_seeds
    if device == DEVICE:
        assert (
            written.pacer is not None and written.pacer.identity == records.bundle_from(seed(RIGHT)).reduced().identity
        )
    else:
        assert written.speedup is not None and written.speedup.mid == pytest.approx(1.0)
    with pytest.raises(ValidationError, match="which the operator does not have"):
        Certificate.model_validate({**written.model_dump(), "reference_seed": 2})


async def test_what_is_not_correct_has_no_certificate(bench: Workbench) -> None:
    search = await bench.run(await bench.begin(evaluations=2))
    certifier = Certifier(bench.store)
    [wrong] = [each for each in await bench.store.candidates.list(search.id) if each.outcome != "correct"]
    with pytest.raises(RecordNotFound, match="no correct verdict"):
        await certifier.of_candidate(wrong.id)
    [elite] = await bench.store.elites.list(search.id, records.DEVICE, search.axes_version)
    for wanted in ({"device": DEVICE}, {"variant": 3}):
        with pytest.raises(RecordNotFound, match="no correct verdict"):
            await certifier.of_candidate(elite.candidate, **wanted)
    with pytest.raises(RecordNotFound):
        await certifier.of_candidate(records.CANDIDATE_ID)
    assert await elites(bench, search) == []
