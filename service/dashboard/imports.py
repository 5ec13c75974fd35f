"""The page that a browser shows while a pasted problem is imported: it grows step by step until the search starts.

The page is one long response, so it needs neither a script nor memory of it in the service.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import monotonic

from markupsafe import Markup, escape
from starlette.responses import StreamingResponse

from service.dashboard.formatting import duration_s
from service.dashboard.rendering import HEADERS, HtmlPage, PageFrame, render_page

TICK_S = 5.0
"""Seconds between signs of life while a step goes on."""
_PLACE = "<!-- steps -->"

Import = Callable[[Callable[[str], None]], Awaitable[str]]
"""Import of a problem: receives a function that it tells its steps, and returns the page to show at the end."""


@dataclass(frozen=True)
class ImportPage(HtmlPage):
    """The page around the steps."""

    template = "import.html"
    section = "/"

    name: str

    @property
    def title(self) -> str:
        """Name of the imported operator."""
        return f"Importing {self.name}"

    @property
    def place(self) -> Markup:
        """Mark at the place of the steps."""
        return Markup(_PLACE)


def respond_step_by_step(name: str, frame: PageFrame, work: Import) -> StreamingResponse:
    """Send the page of an import while it goes on, and the resulting page's address or text at the end.

    Args:
        name: Name of the imported operator.
        frame: Frame of the page.
        work: The import. A result that begins with a slash is the address to go to; any other is HTML to show.
    """
    headers = {**HEADERS, "X-Accel-Buffering": "no"}
    return StreamingResponse(_page(name, frame, work), media_type="text/html", headers=headers)


async def _page(name: str, frame: PageFrame, work: Import) -> AsyncIterator[str]:
    head, _, foot = render_page(ImportPage(name), frame).partition(_PLACE)
    yield head
    steps: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.ensure_future(work(steps.put_nowait))
    try:
        async for line in _lines(steps, task):
            yield line
        yield _ending(await task) + foot
    finally:
        task.cancel()


async def _lines(steps: "asyncio.Queue[str]", task: "asyncio.Future[str]") -> AsyncIterator[str]:
    """Yield a list item per step, and in it the time so far."""
    began, is_open = monotonic(), False
    while not (task.done() and steps.empty()):
        asked = asyncio.ensure_future(steps.get())
        done, _ = await asyncio.wait({asked, task}, timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED)
        if asked in done:
            yield f"{'</li>' if is_open else ''}<li>{escape(asked.result())}"
            is_open = True
            continue
        asked.cancel()
        if not done and is_open:
            yield f" <small>{duration_s(monotonic() - began)}</small>"
    if is_open:
        yield "</li>"


def _ending(result: str) -> str:
    if not result.startswith("/"):
        return f"</ol>{result}"
    address = escape(result)
    return f'</ol><meta http-equiv="refresh" content="0;url={address}"><p><a href="{address}">Open the search</a></p>'
