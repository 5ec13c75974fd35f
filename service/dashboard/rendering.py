"""Pages to HTML.

A page is a frozen dataclass that names its template; so is a fragment, the part that live updates replace. All text is
escaped by the templates, and the headers let nothing run that did not come from our own files.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from service.dashboard.words import FILTERS

STATIC_DIR = Path(__file__).parent / "static"
"""Style sheets, scripts and the icon, as they are sent."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: scripts and styles from our files alone, nothing inline, nothing from elsewhere."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache, private",
}
"""Headers of every page."""


def _digest() -> str:
    """A short name for the static files as they are, so that browsers may keep them for good."""
    content = hashlib.sha256()
    for path in sorted(STATIC_DIR.iterdir()):
        content.update(path.name.encode() + path.read_bytes())
    return content.hexdigest()[:12]


STATIC_PATH = f"/static/{_digest()}"
"""Where the static files are served; another path when one of them changes."""


@dataclass(frozen=True)
class Frame:
    """What surrounds every page.

    Attributes:
        caller: Name of whoever is logged in; empty where nobody has to.
        scopes: What they may do.
        csrf: Sent back with every form.
        links: Pages in the navigation, title by address.
    """

    caller: str = ""
    scopes: frozenset[str] = frozenset()
    csrf: str = ""
    links: tuple[tuple[str, str], ...] = ()

    def may(self, scope: str) -> bool:
        """Whether the caller has a scope."""
        return scope in self.scopes


class Page:
    """A page: a frozen dataclass whose fields its template shows."""

    template: ClassVar[str]
    section: ClassVar[str] = ""
    """Address in the navigation that the page belongs to."""
    live: ClassVar[bool] = False
    """Whether the page has a stream of updates; then it also says its address, as `stream`."""
    heading: ClassVar[str] = ""
    """What the page is called, where that is always the same."""

    @property
    def title(self) -> str:
        """What the browser's tab says."""
        return self.heading


class Fragment:
    """A part of a page that is replaced as a whole; `name` is its id in the document."""

    template: ClassVar[str]
    name: ClassVar[str]


ENVIRONMENT = Environment(
    loader=PackageLoader("service.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
"""Templates; a misspelt name is an error, and whatever is put in is escaped."""
ENVIRONMENT.filters.update(FILTERS)
ENVIRONMENT.globals.update(static=STATIC_PATH)


def render_fragment(fragment: Fragment, frame: Frame) -> Markup:
    """The inside of a fragment as HTML."""
    return Markup(ENVIRONMENT.get_template(fragment.template).render(part=fragment, frame=frame))


def _show(fragment: Fragment, frame: Frame) -> Markup:
    return Markup('<div id="{}" class="part" data-part>{}</div>').format(
        fragment.name, render_fragment(fragment, frame)
    )


ENVIRONMENT.globals.update(show=_show)


def render_page(page: Page, frame: Frame) -> str:
    """A whole page as HTML."""
    return ENVIRONMENT.get_template(page.template).render(page=page, frame=frame)


def respond(page: Page, frame: Frame, status: int = 200) -> HTMLResponse:
    """A page as a response."""
    return HTMLResponse(render_page(page, frame), status, headers=dict(HEADERS))
