from dataclasses import dataclass

import pytest
from jinja2 import UndefinedError

from service.dashboard.rendering import (
    ENVIRONMENT,
    HEADERS,
    POLICY,
    STATIC_DIR,
    STATIC_PATH,
    Fragment,
    HtmlPage,
    PageFrame,
    coded,
    render_fragment,
    respond,
)
from service.dashboard.routing import ErrorPage
from tests.service.dashboard.hostile import CORPUS
from tests.service.dashboard.reading import Document, faults


@dataclass(frozen=True)
class Wrong(HtmlPage):
    template = "error.html"


def test_nothing_inline_and_nothing_from_elsewhere_is_allowed() -> None:
    assert "unsafe" not in POLICY and "http" not in POLICY and "data:" not in POLICY
    assert POLICY.startswith("default-src 'none'") and "frame-ancestors 'none'" in POLICY
    assert HEADERS["X-Content-Type-Options"] == "nosniff"


def test_a_page_is_a_response_with_its_headers() -> None:
    answer = respond(ErrorPage(409, "Not now", "later", "evaluations"), PageFrame(), 409)
    assert answer.status_code == 409 and answer.headers["content-security-policy"] == POLICY
    assert faults(Document(bytes(answer.body).decode())) == []


@pytest.mark.parametrize("text", CORPUS)
def test_whatever_a_page_is_given_stays_text(text: str) -> None:
    page = ErrorPage(404, text, text, text)
    frame = PageFrame(caller=text, csrf=text, scopes=frozenset({"read"}), links=(("/", text),))
    document = Document(bytes(respond(page, frame).body).decode())
    assert faults(document) == [] and " ".join(text.split())[:20] in document.text


def test_a_field_that_a_page_lacks_is_an_error_and_not_an_empty_place() -> None:
    with pytest.raises(UndefinedError):
        respond(Wrong(), PageFrame())


def test_what_stands_between_backquotes_is_code_and_stays_text() -> None:
    assert coded("see `low`, <b>") == "see <code>low</code>, &lt;b&gt;"
    assert coded("`<i>` and a lone `") == "<code>&lt;i&gt;</code> and a lone `"


def test_every_template_can_be_read() -> None:
    names = ENVIRONMENT.list_templates()
    assert {"base.html", "search.html", "parts/map.html"} <= set(names)
    assert [ENVIRONMENT.get_template(name).name for name in names] == names


def test_no_template_switches_escaping_off_or_styles_inline() -> None:
    for name in ENVIRONMENT.list_templates():
        text = ENVIRONMENT.loader.get_source(ENVIRONMENT, name)[0] if ENVIRONMENT.loader else ""
        assert "|safe" not in text.replace(" ", "") and "autoescape" not in text and 'style="' not in text, name


def test_files_are_our_own_and_ask_for_nothing_elsewhere() -> None:
    assert STATIC_PATH.startswith("/static/") and len(STATIC_PATH) == 20
    for path in STATIC_DIR.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text and "@import" not in text, path.name


def test_a_fragment_is_its_inside() -> None:
    @dataclass(frozen=True)
    class Empty(Fragment):
        template = "parts/assembly.html"
        name = "empty"
        kernels: tuple[tuple[str, str, str], ...] = ()

    assert render_fragment(Empty(), PageFrame()).strip() == ""
