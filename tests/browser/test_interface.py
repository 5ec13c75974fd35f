"""The page of the REST interface in Chromium: a request is sent from it, and everything comes from the service."""

import json
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Served, Watched, watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_requests_are_sent_from_the_page(watched: Watched) -> None:
    page = watched.page
    page.goto("/docs")
    page.click("#searches_find summary")
    page.fill("#searches_find input[name=limit]", "1")
    page.click("#searches_find button")
    shown = page.locator("#searches_find output")
    shown.locator("pre").wait_for()
    assert shown.locator(".asked").inner_text() == "GET /api/v1/searches?limit=1: 200 OK"
    assert set(json.loads(shown.locator("pre").inner_text())) == {"items", "next"}
    page.click("#searches_submit summary")
    page.fill("#searches_submit textarea", '{"operator": "rmsnorm", "name": "asked from the page"}')
    page.click("#searches_submit button")
    submitted = page.locator("#searches_submit output pre")
    submitted.wait_for()
    search = json.loads(submitted.inner_text())
    assert search["name"] == "asked from the page"
    page.click("#searches_stop summary")
    page.fill("#searches_stop input[name=id]", search["id"])
    page.click("#searches_stop button")
    stopped = page.locator("#searches_stop output pre")
    stopped.wait_for()
    assert json.loads(stopped.inner_text())["state"] == "stopped"


def test_a_refusal_is_shown_as_it_is(watched: Watched) -> None:
    watched.expect("422")
    page = watched.page
    page.goto("/docs")
    page.click("#searches_find summary")
    page.fill("#searches_find input[name=sort]", "age")
    page.click("#searches_find button")
    shown = page.locator("#searches_find output pre")
    shown.wait_for()
    assert json.loads(shown.inner_text())["errors"][0]["field"] == "query.sort"


@pytest.mark.parametrize("width", [1440, 390])
def test_an_open_form_is_accessible_and_no_wider_than_the_window(
    chromium: "Browser", served: Served, width: int
) -> None:
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text()
    context = chromium.new_context(base_url=served.address, viewport={"width": width, "height": 900})
    page = context.new_page()
    watched = watch(page, served.address)
    page.goto("/docs")
    page.click("#searches_find summary")
    page.click("#searches_find button")
    page.locator("#searches_find output pre").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(axe)
    violations = json.loads(page.evaluate("axe.run().then((found) => JSON.stringify(found.violations))"))
    assert [(each["id"], each["nodes"][0]["target"]) for each in violations if each["impact"] != "minor"] == []
    context.close()
    assert watched.unexpected == []
