"""What a person does with results in Chromium: filter, compare, trace back, clone, label, read a curve, import."""

import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Served, Watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SEARCH_S = 300
PROBLEM = """import torch
import torch.nn as nn

class Model(nn.Module):
    \"\"\"Simple model that performs a ReLU activation.\"\"\"
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand(16, 1024)]

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def ended(chromium: "Browser", served: Served) -> str:
    """Path of a search that has ended with an elite."""
    context = chromium.new_context(base_url=served.address)
    page = context.new_page()
    page.goto("/")
    page.select_option("#operator", "softmax")
    page.fill("#evaluations", "4")
    page.click("text=Start the search")
    page.wait_for_url(re.compile("/searches/[0-9a-f-]{36}$"))
    assert page.locator("[data-since]").count() == 1
    page.locator("#use-title").wait_for(timeout=SEARCH_S * 1000)
    path = page.evaluate("location.pathname")
    context.close()
    return str(path)


def test_an_ended_search_says_how_to_use_its_result(watched: Watched, ended: str) -> None:
    page = watched.page
    page.goto(ended)
    assert "reef export" in page.inner_text("#use-package")
    with page.expect_download() as kept:
        page.locator(".use a:has-text('Download')").first.click()
    assert kept.value.suggested_filename.endswith(".py")
    best = {page.inner_text(".tiles .big a"), page.inner_text(".charts figure:first-child b")}
    page.goto("/")
    best.add(page.locator(f"tr:has(a[href='{ended}']) td b").first.inner_text())
    assert len(best) == 1, "one figure for one best kernel"


def test_a_curve_says_its_value_under_the_pointer(watched: Watched, ended: str) -> None:
    page = watched.page
    page.goto(ended)
    plot = page.locator(".plot[data-values]").first
    plot.hover(position={"x": 5, "y": 40})
    reading = plot.locator(".reading").inner_text()
    assert re.fullmatch("\u2248[0-9.]+\u00d7 at [0-9]+ evaluations?", reading)
    page.hover("h1")
    assert plot.locator(".reading").count() == 0


def test_candidates_are_filtered_without_scripts_and_two_are_compared(
    chromium: "Browser", served: Served, ended: str
) -> None:
    context = chromium.new_context(base_url=served.address, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{ended}/candidates")
    every = page.locator("tbody tr").count()
    page.select_option("[name=emitter]", "seed")
    page.select_option("[name=sort]", "-objective")
    page.click("text=Show")
    assert "emitter=seed" in page.url and 0 < page.locator("tbody tr").count() < every
    page.click("text=Compare the two chosen")
    assert page.locator(".two-sources tr").count() > 5 and page.locator(".differs").count() > 0
    context.close()


def test_a_clone_is_filled_in_and_the_log_and_the_ancestry_are_there(watched: Watched, ended: str) -> None:
    page = watched.page
    page.goto(ended)
    page.click("#events summary")
    page.locator("#events .log li").first.wait_for()
    assert "The search is done." in page.inner_text("#events .log")
    page.click("text=Ancestry of the best elites")
    assert page.locator("svg.lineage .self").count() == 1
    page.goto(ended)
    page.click("#clone")
    page.locator("#start").wait_for()
    assert page.input_value("#operator") == "softmax" and page.input_value("#evaluations") == "4"


def test_a_search_is_labelled(watched: Watched, ended: str) -> None:
    page = watched.page
    page.goto(ended)
    page.fill("#name", "For the <b>report</b>")
    page.fill("#tags", "paper sm_90")
    page.click(".labels button")
    page.wait_for_url(f"**{ended}")
    assert page.inner_text("h1").startswith("For the <b>report</b>")
    page.goto("/")
    assert page.locator(".tag").all_inner_texts()[:2] == ["paper", "sm_90"]


def test_on_a_phone_state_and_speedup_and_the_filled_map_are_in_view(
    chromium: "Browser", served: Served, ended: str
) -> None:
    context = chromium.new_context(base_url=served.address, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto("/")
    row = page.locator(f"tr:has(a[href='{ended}'])")
    for part in (row.locator(".state"), row.locator("td b").first):
        box = part.bounding_box()
        assert box is not None and box["x"] + box["width"] <= 390
    page.goto(ended)
    lefts = [box["x"] for tile in page.locator(".map td a").all() if (box := tile.bounding_box())]
    assert any(70 < left < 390 - 40 for left in lefts)
    context.close()


def test_a_pasted_problem_shows_its_import_and_wins_over_the_list(watched: Watched) -> None:
    page = watched.page
    page.goto("/")
    page.select_option("#operator", "argmax")
    page.fill("#evaluations", "1")
    page.click("text=Paste your own spec")
    page.fill("#spec", PROBLEM)
    page.click("text=Start the search")
    page.wait_for_url(re.compile("/searches$"), wait_until="commit")
    page.locator(".steps li").first.wait_for()
    assert "Importing relu_activation" in page.inner_text("h1")
    page.wait_for_url(re.compile("/searches/[0-9a-f-]{36}$"), timeout=SEARCH_S * 1000)
    assert page.inner_text("h1").startswith("relu_activation")
    page.click("#stop")
    page.locator(".state.stopped").wait_for()
