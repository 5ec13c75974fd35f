"""The format: named by its content, read with suspicion."""

import json

import pytest

from service.certificates.document import FORMAT, Certificate, digest_of, read, sealed
from service.errors import InvalidInput
from tests.service.certificates.evidence import certificate, measured, verdict
from workers.protocol import CheckResult


def test_a_certificate_survives_its_file_and_is_what_its_id_says() -> None:
    for report in (verdict(), measured()):
        written = certificate(report)
        again = read(written.text().encode())
        assert again.certificate == written and again.digest == written.id == digest_of(json.loads(written.text()))
        assert again.certificate.operator.digest == written.operator_digest, "the order of keys is kept"


def test_the_id_is_the_digest_of_the_content_alone() -> None:
    written = certificate()
    assert written.format == FORMAT and sealed(written.model_copy(update={"id": "other"})) == written
    assert sealed(written.model_copy(update={"title": written.title + "!"})).id != written.id
    spaced = json.dumps(json.loads(written.text()), indent=7)
    assert read(spaced.encode()).digest == written.id, "layout is no content"


def test_a_changed_document_has_another_digest() -> None:
    document = json.loads(certificate().text())
    document["verdict"]["shapes"][0]["mid_us"] = 1.0
    changed = read(json.dumps(document).encode())
    assert changed.digest != changed.certificate.id


def test_figures_that_json_has_no_word_for_survive() -> None:
    endless = CheckResult(name="error_ratio", verdict="passed", worst=float("inf"))
    written = certificate(verdict(checks=(endless,)))
    assert read(written.text().encode()).certificate.verdict.checks == (endless,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not a JSON document"),
        (b"\xff\xfe", "not a JSON document"),
        (b"[" * 100_000, "not a JSON document"),
        (b"{}", "title"),
        (b"[]", "not a certificate"),
        (certificate().text().replace("/2", "/3", 1).encode(), "format"),
        (certificate().text().replace('"title"', '"tittle"', 1).encode(), "title"),
    ],
)
def test_anything_else_is_refused_by_field(text: bytes, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(text)
    assert said in refused.value.detail and refused.value.field == "CERTIFICATE"


def test_the_longest_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.certificates.document.MAX_BYTES", 10)
    with pytest.raises(InvalidInput, match="limit is 10"):
        read(certificate().text().encode())
    assert isinstance(certificate(), Certificate)
