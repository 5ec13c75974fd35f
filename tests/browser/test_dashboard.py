"""The dashboard in Chromium: a search is started, watched, opened and steered; hostile text stays text."""

import json
import re
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Served, Watched, watch
from tests.service.dashboard.hostile import Hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SEARCH_S = 300
"""Seconds for a few evaluations on a busy machine; each takes seconds on a quiet one."""
WIDTHS = (1440, 390)


@pytest.fixture(scope="module")
def search(chromium: "Browser", served: Served) -> str:
    """Path of a search that was started with the form and has filled a cell while its page was looked at."""
    context = chromium.new_context(base_url=served.address)
    page = context.new_page()
    watched = watch(page, served.address)
    page.goto("/")
    page.select_option("#operator", "rmsnorm")
    page.fill("#evaluations", "6")
    page.click("text=Start the search")
    page.wait_for_url(re.compile("/searches/[0-9a-f-]{36}$"))
    assert page.locator(".map td a").count() == 0
    loaded = page.evaluate("performance.timeOrigin")
    page.locator(".map td a").first.wait_for(timeout=SEARCH_S * 1000)
    assert page.evaluate("performance.timeOrigin") == loaded, "it was filled by updates, not by loading again"
    assert page.locator("#live").get_attribute("data-state") == "on"
    path = page.evaluate("location.pathname")
    context.close()
    assert watched.unexpected == []
    return str(path)


def hostile_of(served: Served) -> Hostile:
    assert served.hostile is not None
    return served.hostile


def paths(search: str, hostile: Hostile, page: "Page") -> list[str]:
    """Every page, with something on it."""
    page.goto(search)
    candidate = page.locator(".map td a").first.get_attribute("href")
    bad, side = f"/searches/{hostile.search.id}", f"{search.rpartition('/')[2]}@model:sm_90"
    return [
        "/", search, f"{search}?along=dollars&colour=age", f"{search}/shapes", f"{search}/candidates", str(candidate),
        "/operators", "/operators/rmsnorm", "/workers", "/prompts", f"/prompts/{hostile.prompt}", "/tokens", "/audit",
        "/login", "/compare", f"/compare?left={side}&right={hostile.search.id}@model:sm_90", bad, f"{bad}/candidates",
        f"/candidates/{hostile.candidates[3]}", f"{candidate}/certificate", "/prompts?state=answered", "/docs",
        "/searches/nothing", f"{bad}/log", f"{bad}/ancestry", f"/?origin={search.rpartition('/')[2]}",
        f"/candidates/compare?left={hostile.candidates[0]}&right={hostile.candidates[3]}",
    ]  # fmt: skip


def test_a_square_says_who_holds_it_and_leads_there(watched: Watched, search: str) -> None:
    page = watched.page
    page.goto(search)
    tile = page.locator(".map td a").first
    tile.hover()
    assert "predicted \u00b7 candidate" in page.inner_text("#inspect")
    tile.click()
    page.wait_for_url(re.compile("/candidates/"))
    assert page.locator("#source .l").count() > 10
    page.click("summary:has-text('Assembly text')")
    page.locator("#ptx pre").first.wait_for()
    assert ".visible .entry" in page.inner_text("#ptx")
    with page.expect_download() as kept:
        page.click("text=Download source")
    assert "triton" in Path(kept.value.path()).read_text()


def test_a_view_is_an_address(watched: Watched, search: str) -> None:
    page = watched.page
    page.goto(search)
    page.select_option("select[name=x]", "registers")
    page.wait_for_url(re.compile("x=registers"))
    page.locator(".map .axis:has-text('registers')").first.wait_for()
    page.select_option("select[name=colour]", "emitter")
    page.wait_for_url(re.compile("colour=emitter"))
    address = page.url
    page.go_back()
    page.wait_for_url(lambda url: "colour=emitter" not in url)
    page.goto(address)
    assert page.input_value("select[name=colour]") == "emitter"
    assert page.locator(".legend").inner_text().count("seed") == 1


def test_a_search_is_steered(watched: Watched, served: Served) -> None:
    page = watched.page
    page.goto(f"/searches/{hostile_of(served).search.id}")
    page.fill("#evaluations", "500")
    page.click("#evaluations ~ button")
    page.locator("#status:has-text('of 500 allowed')").wait_for()
    page.fill("#cell", "7")
    page.click("#cell ~ button")
    page.locator("text=elite of cell 7").wait_for()
    page.fill("#hint", "one pass <b>over</b> the rows")
    page.click("text=Add the hint")
    page.locator("text=one pass <b>over</b> the rows").wait_for()
    page.fill("#evaluations", "none")
    page.click("#evaluations ~ button")
    page.locator("text=enter a whole number").wait_for()
    watched.expect("422")


def test_pausing_is_seen_by_everybody_at_once(watched: Watched, chromium: "Browser", served: Served) -> None:
    page = watched.page
    page.goto("/")
    page.select_option("#operator", "softmax")
    page.click("text=Start the search")
    page.wait_for_url(re.compile("/searches/"))
    other = page.context.new_page()
    other.goto(page.url)
    for button, state in (("#pause", "paused"), ("#resume", ""), ("#stop", "stopped")):
        page.click(button)
        page.wait_for_load_state()
        if state:
            other.locator(f"#status .state.{state}").wait_for()
    assert other.locator("#pause, #resume, #stop").count() == 0


def test_what_is_wrong_is_said_where_it_is(watched: Watched) -> None:
    page = watched.page
    page.goto("/")
    page.fill("#evaluations", "many")
    page.click("text=Start the search")
    page.locator("#wrong-evaluations").wait_for()
    assert page.evaluate("document.activeElement.id") == "evaluations"
    assert page.input_value("#evaluations") == "many"
    watched.expect("422")


def test_a_lost_connection_is_visible_and_comes_back(chromium: "Browser", tmp_path: Path) -> None:
    service = Served(tmp_path)
    service.start()
    context = chromium.new_context(base_url=service.address)
    page = context.new_page()
    page.goto("/workers")
    page.locator("#live[data-state=on]").wait_for()
    service.stop()
    page.locator("#stale:not([hidden])").wait_for(timeout=30_000)
    assert "The figures below are from" in page.inner_text("#stale")
    assert page.evaluate("getComputedStyle(document.querySelector('.part')).opacity") < "0.6"
    service.start()
    page.locator("#live[data-state=on]").wait_for(timeout=30_000)
    assert page.locator("#stale").is_hidden()
    context.close()
    service.stop()


def test_nothing_hostile_runs_or_leads_astray(watched: Watched, served: Served, search: str) -> None:
    page, hostile = watched.page, hostile_of(served)
    every = paths(search, hostile, page) + [f"/candidates/{id}" for id in hostile.candidates]
    for path in every:
        page.goto(path)
        page.wait_for_timeout(150)
        assert page.evaluate("window.broken") is None, path
        foreign = page.locator("iframe, base, form[action^='//'], a[href^='javascript:'], main script").count()
        assert foreign == 0, path
    watched.expect("404")


def test_everything_can_be_reached_with_the_keyboard(watched: Watched, search: str) -> None:
    page = watched.page
    page.goto(search)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    main = page.evaluate_handle("document.getElementById('main')")
    page.keyboard.press("Enter")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.closest('.map') ? 'map' : document.activeElement.name"))
        if reached[-1] == "map":
            break
    assert {"x", "y", "colour", "map"} <= set(reached)
    assert page.inner_text("#inspect").count("candidate") == 1, "focus tells what pointing does"
    page.wait_for_timeout(500)
    assert page.evaluate("(element) => element.isConnected", main), "a link into the page reads nothing anew"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    before = page.evaluate("document.activeElement.href")
    for key in ("ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    assert "/candidates/" in page.evaluate("document.activeElement.href")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/candidates/"))
    assert before


def test_a_square_is_replaced_by_itself_and_keeps_focus(watched: Watched, search: str) -> None:
    page = watched.page
    page.goto(search)
    page.locator("#live[data-state=on]").wait_for()  # What the stream says first, it says of whole parts.
    tile = page.locator(".map td:has(a)").first
    name, html = tile.get_attribute("id"), tile.evaluate("(element) => element.outerHTML")
    neighbour = page.evaluate_handle("(id) => document.getElementById(id).previousElementSibling", name)
    tile.locator("a").focus()
    fresh = html.replace('data-inspect="', 'data-inspect="anew, ')
    page.evaluate("([id, html]) => replacePiece(document.getElementById(id), html)", [name, fresh])
    assert page.evaluate("document.activeElement.parentElement.id") == name
    assert page.locator(f"#{name}").get_attribute("class").split()[-1] == "fresh"
    assert page.inner_text("#inspect").startswith("anew, "), "what is pointed at is said anew"
    assert page.evaluate("(element) => element.isConnected", neighbour), "its neighbours were left alone"


def test_what_is_pinned_has_a_mark(watched: Watched, served: Served, search: str) -> None:
    page = watched.page
    page.goto(f"/searches/{hostile_of(served).search.id}")
    assert page.locator(".map td.pinned").count() >= 1
    assert page.locator(".legend >> text=pinned").count() == 1
    page.goto(search)
    page.locator(".map td a").first.click()
    page.locator(".lineage").wait_for()
    assert page.locator(".shapes .timing").count() == page.locator(".shapes figure").count() > 0
    assert page.locator(".roofline circle").count() == page.locator(".shapes figure").count()


def test_winners_by_shape_are_read_when_they_are_opened(watched: Watched, search: str) -> None:
    page = watched.page
    page.goto(search)
    page.click("#by-shape summary")
    page.locator("#by-shape table").wait_for()
    assert "gains" in page.inner_text("#by-shape")


def test_focus_survives_updates(watched: Watched, search: str) -> None:
    page = watched.page
    page.goto(search)
    page.locator("#live[data-state=on]").wait_for()
    page.locator(".map td a").first.focus()
    held = page.evaluate("document.activeElement.href")
    page.evaluate("replaceInside(document.getElementById('map'), document.getElementById('map').innerHTML)")
    assert page.evaluate("document.activeElement.href") == held


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(chromium: "Browser", served: Served, search: str, scheme: str) -> None:
    """axe-core finds nothing serious on any page: names, roles, contrast, order of headings."""
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text()
    context = chromium.new_context(base_url=served.address, color_scheme=scheme)
    page = context.new_page()
    found: dict[str, list[str]] = {}
    for path in paths(search, hostile_of(served), page):
        page.goto(path)
        page.evaluate(axe)
        violations = json.loads(page.evaluate("axe.run().then((found) => JSON.stringify(found.violations))"))
        serious = [each for each in violations if each["impact"] in ("serious", "critical", "moderate")]
        if serious:
            nodes = [f"{each['id']}: {node['target']}" for each in serious for node in each["nodes"][:3]]
            found[path] = nodes
    context.close()
    assert found == {}


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(chromium: "Browser", served: Served, search: str, width: int) -> None:
    context = chromium.new_context(base_url=served.address, viewport={"width": width, "height": 900})
    page = context.new_page()
    wide = {}
    for path in paths(search, hostile_of(served), page):
        page.goto(path)
        reach = page.evaluate("document.documentElement.scrollWidth")
        if reach > width:
            wide[path] = reach
    context.close()
    assert wide == {}


def test_without_scripts_pages_still_work(chromium: "Browser", served: Served, search: str) -> None:
    context = chromium.new_context(base_url=served.address, java_script_enabled=False)
    page = context.new_page()
    page.goto(search)
    page.select_option("select[name=x]", "num_warps")
    page.click("text=Show")
    assert "x=num_warps" in page.url and page.locator(".map td a").count() > 0
    context.close()


@pytest.fixture
def guarded(chromium: "Browser", tmp_path: Path) -> Iterator[Served]:
    """A service of its own, for a test that makes tokens: from then on everybody has to log in."""
    service = Served(tmp_path)
    service.start()
    yield service
    service.stop()


def test_the_first_token_closes_the_door_and_opens_it(chromium: "Browser", guarded: Served) -> None:
    context = chromium.new_context(base_url=guarded.address)
    page = context.new_page()
    page.goto("/tokens")
    page.fill("#name", "ada")
    for scope in ("submit", "steer", "admin"):
        page.check(f"input[value={scope}]")
    page.click("text=Create the token")
    token = page.inner_text("#issued")
    page.goto("/workers")
    page.wait_for_url(re.compile("/login"))
    page.fill("#token", "reef_wrong")
    page.click("button:has-text('Log in')")
    page.locator("text=unknown, revoked or expired").wait_for()
    page.fill("#token", token)
    page.click("button:has-text('Log in')")
    page.wait_for_url(re.compile("/workers"))
    assert page.inner_text(".caller") == "ada"
    page.goto("/")
    page.click("text=Start the search")
    page.wait_for_url(re.compile("/searches/"))
    page.click("#pause")
    page.locator(".state.paused").wait_for()
    time.sleep(0.1)
    page.click("text=Log out")
    page.wait_for_url(re.compile("/login"))
    page.goto("/")
    page.wait_for_url(re.compile("/login"))
    context.close()
