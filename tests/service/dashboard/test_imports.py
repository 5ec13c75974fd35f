import asyncio
from collections.abc import Callable

import pytest

from service.dashboard import imports
from service.dashboard.imports import respond_step_by_step
from service.dashboard.rendering import PageFrame


async def shown(work: imports.Import) -> str:
    response = respond_step_by_step("relu <b>", PageFrame(), work)
    return "".join([str(part) async for part in response.body_iterator])


async def test_steps_appear_one_by_one_and_lead_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "TICK_S", 0.01)

    async def work(tell: Callable[[str], None]) -> str:
        tell("Inspecting <x>")
        await asyncio.sleep(0.1)
        tell("Writing")
        return "/searches/1"

    page = await shown(work)
    assert "Importing relu &lt;b&gt;" in page
    assert page.index("<li>Inspecting &lt;x&gt; <small>") < page.index("</li><li>Writing</li></ol>")
    assert 'content="0;url=/searches/1"' in page and page.rstrip().endswith("</html>")


async def test_a_failed_import_ends_with_what_it_returns() -> None:
    async def work(tell: Callable[[str], None]) -> str:
        return "<p>No seed kernel.</p>"

    page = await shown(work)
    assert "</ol><p>No seed kernel.</p>" in page and "http-equiv" not in page


async def test_a_closed_page_ends_the_import() -> None:
    ended = asyncio.Event()

    async def work(tell: Callable[[str], None]) -> str:
        tell("Writing")
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "/"

    parts = respond_step_by_step("relu", PageFrame(), work).body_iterator
    assert "Importing" in str(await anext(parts)) and "Writing" in str(await anext(parts))
    await parts.aclose()  # type: ignore[attr-defined]
    await asyncio.wait_for(ended.wait(), 5)
