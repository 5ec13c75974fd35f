"""Certificates to read: everything is there, nothing hostile runs."""

import httpx
import pytest

from service.certificates.document import read as read_document
from service.dashboard.certificate import CertificatePage, races_of
from service.dashboard.rendering import PageFrame, render_page
from tests.service.certificates.evidence import WORKER, certificate, measured, verdict
from tests.service.dashboard.conftest import Filled
from tests.service.dashboard.hostile import CORPUS
from tests.service.dashboard.reading import Document, read
from workers.protocol import CheckResult, Samples

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_certificate_is_read_and_taken_away(pages: httpx.AsyncClient, filled: Filled) -> None:
    candidate = read(await pages.get(f"/candidates/{filled.best}"))
    [link] = [tag for tag in candidate.all("a") if "/certificate?" in tag.get("href", "")]
    page = read(await pages.get(link["href"]))
    assert "nothing was measured" in page.text and "Why trust" in page.text
    [button] = [tag for tag in page.all("a") if "certificate.json" in tag.get("href", "")]
    file = await pages.get(button["href"])
    assert file.headers["content-disposition"].startswith("attachment; ")
    found = read_document(file.content)
    assert found.digest == found.certificate.id and found.certificate.id in page.text
    assert (await pages.get(f"/candidates/{filled.failed}/certificate")).status_code == 404


async def test_races_are_shown_sample_by_sample() -> None:
    report = measured()
    shapes = (
        report.shapes[0].model_copy(update={"rival_samples": Samples(candidate_us=(1.0,), other_us=(2.5,), calls=1)}),
    )
    races = races_of(report.model_copy(update={"shapes": shapes}))
    assert [(race.beside, race.candidate_us, race.other_us) for race in races] == [
        ("pacer", "10, 10.1", "20, 20.1"),
        ("incumbent", "1", "2.5"),
    ]
    assert races_of(verdict()) == ()


async def test_figures_of_a_card_come_with_reasons_and_without_names_of_machines() -> None:
    written = certificate(measured())
    page = CertificatePage.of(written)
    text = render_page(page, PageFrame())
    assert "10.00 µs" in text and "eager 30.00 µs" in text
    assert "MEASURED" in text and all(reason in text for reason in written.trust_reasons) and WORKER not in text
    assert page.address == "/candidates/candidate-1/certificate.json?variant=0&device=h200"
    assert page.title == "Certificate of double candidate date-1"


@pytest.mark.parametrize("text", CORPUS)
async def test_nothing_hostile_gets_through(text: str) -> None:
    check = CheckResult(name=text, verdict="passed", detail=text)
    written = certificate(verdict(checks=(check,), versions={text: text}, controls={text: 1.0}))
    launch = {shape: (text, text) for shape in written.words}
    html = render_page(
        CertificatePage.of(written.model_copy(update={"words": launch, "left_out": (text,)})), PageFrame()
    )
    document = Document(html)
    assert not document.wrong and " ".join(text.split())[:20] in " ".join(" ".join(document.texts).split())
    assert "window.broken" not in "".join(value for _, names in document.tags for value in names.values())
    assert all(tag not in ("iframe", "base", "math", "mglyph") for tag, _ in document.tags)
