import ast

import httpx
import pytest

from service.certificates.document import read as read_document
from service.dashboard.candidates import CertificatePage, paired_samples
from service.dashboard.rendering import PageFrame, render_page
from tests.service import records
from tests.service.certificates.evidence import WORKER, certificate, measured, verdict
from tests.service.dashboard.conftest import Filled, Hostile
from tests.service.dashboard.hostile import CORPUS
from tests.service.dashboard.reading import Document, faults, read
from workers.protocol import CheckResult, Samples

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_candidate_is_shown_whole(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get(f"/candidates/{filled.best}"))
    for said in (
        "holds cell 1",
        "N=1024",
        "\u224810.00 \u00b5s",
        "launch double_kernel",
        "memory floor",
        "seed kernel",
    ):
        assert said in page.text
    assert "# 1" in page.text and "Changes since" in page.text
    assert f"/candidates/{filled.best}?against={filled.first}#diff-title" in [link["href"] for link in page.all("a")]


async def test_one_that_failed_says_where_and_why(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get(f"/candidates/{filled.failed}"))
    assert "compile error" in page.text and "no such name" in page.text
    assert {"href": "#L3"} in page.all("a")
    assert "No launch plan: the candidate failed before it had one." in page.text


async def test_assembly_is_read_on_demand(pages: httpx.AsyncClient, filled: Filled) -> None:
    answer = await pages.get(f"/candidates/{filled.best}/assembly?variant=0")
    fragment = Document(answer.text)
    assert "visible .entry kernel" in fragment.text and faults(fragment) == []
    assert (await pages.get(f"/candidates/{filled.failed}/assembly")).status_code == 404


async def test_sources_and_elites_are_files_to_keep(pages: httpx.AsyncClient, filled: Filled) -> None:
    source = await pages.get(f"/candidates/{filled.best}/source")
    assert source.text == f"{records.SEED}# 1\n"
    assert source.headers["content-disposition"].startswith("attachment; ")
    kernel = await pages.get(f"/candidates/{filled.best}/kernel?device=model:sm_90")
    assert ast.parse(kernel.text) and "predicted, not measured" in kernel.text
    assert (await pages.get(f"/candidates/{filled.failed}/kernel?device=model:sm_90")).status_code == 404


async def test_the_list_is_sorted_and_filtered_by_emitter_outcome_and_text(
    pages: httpx.AsyncClient, filled: Filled
) -> None:
    path = f"/searches/{filled.search.id}/candidates"

    async def found(query: str) -> list[str]:
        page = read(await pages.get(f"{path}?{query}"))
        return [str(link["href"]).rpartition("/")[2] for link in page.all("a") if link.get("class") == "id"]

    every = await found("")
    assert await found("sort=created") == every[::-1]
    assert (await found("sort=-objective"))[0] == filled.best
    assert await found("text=NO+SUCH+NAME") == [filled.failed]
    assert await found("emitter=nobody") == []
    assert await found("outcome=correct&text=no+such+name") == []
    chosen = read(await pages.get(f"{path}?sort=objective&text=such"))
    assert {"value": "objective", "selected": ""} in chosen.all("option")
    assert "sort" in read(await pages.get(f"{path}?sort=colour"), 422).text
    assert "outcome" in read(await pages.get(f"{path}?outcome=odd"), 422).text


async def test_the_list_is_narrowed_by_outcome(pages: httpx.AsyncClient, filled: Filled) -> None:
    every = read(await pages.get(f"/searches/{filled.search.id}/candidates"))
    failed = read(await pages.get(f"/searches/{filled.search.id}/candidates?outcome=compile_error"))
    assert {"href": f"/candidates/{filled.failed}", "class": "id", "title": filled.failed} in failed.all("a")
    assert filled.best in str(every.tags) and filled.best not in str(failed.tags)


async def test_nothing_hostile_gets_through(pages: httpx.AsyncClient, hostile: Hostile) -> None:
    read(await pages.get(f"/searches/{hostile.search.id}/candidates"))
    for id, text in zip(hostile.candidates, CORPUS, strict=True):
        page = read(await pages.get(f"/candidates/{id}"))
        assert " ".join(text.split())[:20] in page.text


async def test_a_certificate_is_read_and_taken_away(pages: httpx.AsyncClient, filled: Filled) -> None:
    candidate = read(await pages.get(f"/candidates/{filled.best}"))
    [link] = [tag for tag in candidate.all("a") if "/certificate?" in tag.get("href", "")]
    page = read(await pages.get(link["href"]))
    assert "nothing was measured" in page.text and "Reasons for trust" in page.text
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
    samples = paired_samples(report.model_copy(update={"shapes": shapes}))
    assert [(pair.beside, pair.candidate_us, pair.other_us) for pair in samples] == [
        ("pacer", "10, 10.1", "20, 20.1"),
        ("incumbent", "1", "2.5"),
    ]
    assert paired_samples(verdict()) == ()


async def test_figures_of_a_card_come_with_reasons_and_without_names_of_machines() -> None:
    written = certificate(measured())
    page = CertificatePage.of(written)
    text = render_page(page, PageFrame())
    assert "10.00 µs" in text and "eager 30.00 µs" in text
    assert "MEASURED" in text and all(reason in text for reason in written.trust_reasons) and WORKER not in text
    assert page.address == "/candidates/candidate-1/certificate.json?variant=0&device=h200"
    assert page.title == "Certificate of double candidate date-1"


@pytest.mark.parametrize("text", CORPUS)
async def test_nothing_hostile_gets_through_a_certificate(text: str) -> None:
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
