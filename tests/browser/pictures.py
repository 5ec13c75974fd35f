"""Takes pictures of every page of a running service, wide and narrow, light and dark, to be looked at.

python -m tests.browser.pictures http://127.0.0.1:8700 FOLDER    # docs keep search-1440-light.jpg of them
"""

import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS

QUALITY = 55
"""Of JPEG: text stays sharp enough to read, and forty pictures stay small."""


def pages(page: Page, address: str) -> dict[str, str]:
    """Addresses by name: the newest search on a card, or the newest, and its best candidate stand for all.

    It is compared with the next of its kind. One search must have failed.
    """
    page.goto(address)
    fine = page.locator(".searches tbody tr:not(:has(.state.failed))")
    measured = fine.filter(has=page.locator(".badge.measured"))
    searches = (measured if measured.count() else fine).locator("th a")
    search, other = (searches.nth(index).get_attribute("href") for index in (0, min(1, searches.count() - 1)))
    failed = page.locator("tr:has(.state.failed) th a").first.get_attribute("href")
    page.goto(f"{address}{search}/candidates")
    candidates = [each.get_attribute("href") or "" for each in page.locator("tbody th a").all()[:2]]
    left, right = (each.rpartition("/")[2] for each in candidates)
    page.goto(f"{address}{search}")
    candidate = page.locator(".tiles .big a").first.get_attribute("href")
    device = page.locator("input[name=device]").first.get_attribute("value")
    sides = [f"{str(each).rpartition('/')[2]}@{device}" for each in (search, other)]
    return {
        "overview": "/",
        "search": f"{search}",
        "failed": f"{failed}",
        "candidates": f"{search}/candidates",
        "candidate-pair": f"/candidates/compare?left={left}&right={right}",
        "log": f"{search}/log",
        "ancestry": f"{search}/ancestry",
        "shapes": f"{search}/shapes",
        "candidate": f"{candidate}",
        "certificate": f"{candidate}/certificate",
        "compare": f"/compare?left={sides[0]}&right={sides[1]}",
        "operators": "/operators",
        "operator": "/operators/softmax",
        "workers": "/workers",
        "prompts": "/prompts",
        "tokens": "/tokens",
        "interface": "/docs",
        "login": "/login?refused=1",
        "error": "/searches/nothing",
    }


def main(address: str, folder: Path) -> None:
    """Take every picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        found = pages(browser.new_page(), address)
        for width in (1440, 390):
            for scheme in ("light", "dark"):
                context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                page = context.new_page()
                for name, path in found.items():
                    page.goto(address + path)
                    page.wait_for_timeout(700)
                    target = folder / f"{name}-{width}-{scheme}.jpg"
                    page.screenshot(path=target, full_page=True, type="jpeg", quality=QUALITY)
                context.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
