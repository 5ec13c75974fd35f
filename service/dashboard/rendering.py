"""Rendering of pages to HTML.

A page is a frozen dataclass that names its template. So is a fragment, the part that live updates replace. Templates
escape all text, and the headers allow scripts and styles from our own files only.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from service.dashboard.formatting import FILTERS
from service.evaluation.figure_labels import outdated, provenance, relative_to

STATIC_DIR = Path(__file__).parent / "static"
"""Style sheets, scripts and the icon, as they are sent."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: scripts and styles from our files only, nothing inline, nothing from other hosts."""
PIECES_KEPT = 4096
"""Maximum number of pieces kept as HTML, half a kilobyte each: the tiles of some dozens of maps."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache, private",
    "Vary": "Accept-Encoding",
}
"""Headers of every page."""


def _digest() -> str:
    """Hash the static files, so that browsers can cache them without limit."""
    content = hashlib.sha256()
    for path in sorted(STATIC_DIR.iterdir()):
        content.update(path.name.encode() + path.read_bytes())
    return content.hexdigest()[:12]


STATIC_PATH = f"/static/{_digest()}"
"""Path of the static files; it changes when one of them changes."""


@dataclass(frozen=True)
class PageFrame:
    """The frame around every page.

    Attributes:
        caller: Name of the logged-in token; empty if no login is needed.
        scopes: Scopes of the caller.
        csrf: CSRF token, sent back with every form.
        links: Address and title of the pages in the navigation.
    """

    caller: str = ""
    scopes: frozenset[str] = frozenset()
    csrf: str = ""
    links: tuple[tuple[str, str], ...] = ()

    def may(self, scope: str) -> bool:
        """Return True if the caller has a scope."""
        return scope in self.scopes


class HtmlPage:
    """A page: a frozen dataclass whose fields its template shows."""

    template: ClassVar[str]
    section: ClassVar[str] = ""
    """Address of the navigation entry that the page belongs to."""
    live: ClassVar[bool] = False
    """True if the page has live updates; `stream` is then their address."""
    heading: ClassVar[str] = ""
    """Title of the page, if it is always the same."""

    @property
    def title(self) -> str:
        """Title in the browser tab."""
        return self.heading


class Fragment:
    """A part of a page that updates replace; `name` is its id in the document.

    A fragment with pieces is replaced piece by piece if nothing else has changed. Its template inserts each piece with
    `hole`, and the piece's own template makes the element of that id. A piece is the same for all readers.
    """

    template: ClassVar[str]
    name: str

    @property
    def pieces(self) -> "tuple[Fragment, ...]":
        """Parts that can be replaced one by one."""
        return ()


@dataclass(frozen=True)
class RenderedFragment:
    """A fragment as HTML: a skeleton with holes, and the pieces that fill them, by name."""

    name: str
    skeleton: str
    pieces: Mapping[str, str]

    @property
    def whole(self) -> str:
        """Content of the fragment's element."""
        return _HOLE.sub(lambda found: self.pieces[found[1]], self.skeleton) if self.pieces else self.skeleton


ENVIRONMENT = Environment(
    loader=PackageLoader("service.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
"""Template environment; a misspelt name is an error, and every value is escaped."""
_CODE = re.compile("`([^`]+)`")


def coded(text: str) -> Markup:
    """Format a reason: what stands between backquotes is code."""
    parts = (Markup("<code>{}</code>" if at % 2 else "{}").format(part) for at, part in enumerate(_CODE.split(text)))
    return Markup("").join(parts)


ENVIRONMENT.filters.update(FILTERS, coded=coded, outdated=outdated, provenance=provenance, relative_to=relative_to)
ENVIRONMENT.globals.update(static=STATIC_PATH)


_MARK = secrets.token_hex(8)
# Random tag name of holes, so that no user's text can contain one.
_HOLE = re.compile(f"<{_MARK} ([a-z0-9-]+)>")


def render(fragment: Fragment, frame: PageFrame) -> RenderedFragment:
    """Render a fragment; pieces come from a cache if they were rendered lately."""
    skeleton = _fill(fragment, frame, lambda piece: Markup(f"<{_MARK} {piece.name}>"))
    return RenderedFragment(fragment.name, skeleton, {piece.name: _piece(piece) for piece in fragment.pieces})


def render_fragment(fragment: Fragment, frame: PageFrame) -> Markup:
    """Render the content of a fragment's element."""
    return Markup(render(fragment, frame).whole)


def _fill(fragment: Fragment, frame: PageFrame, hole: Callable[[Fragment], Markup]) -> str:
    return ENVIRONMENT.get_template(fragment.template).render(part=fragment, frame=frame, hole=hole)


@lru_cache(maxsize=PIECES_KEPT)
def _piece(piece: Fragment) -> Markup:
    return Markup(_fill(piece, PageFrame(), _piece))


def _show(fragment: Fragment, frame: PageFrame) -> Markup:
    return Markup('<div id="{}" class="part" data-part>{}</div>').format(
        fragment.name, render_fragment(fragment, frame)
    )


ENVIRONMENT.globals.update(show=_show)


def render_page(page: HtmlPage, frame: PageFrame) -> str:
    """Render a whole page."""
    return ENVIRONMENT.get_template(page.template).render(page=page, frame=frame, hole=_piece)


def respond(page: HtmlPage, frame: PageFrame, status: int = 200) -> HTMLResponse:
    """Make a response of a page."""
    return HTMLResponse(render_page(page, frame), status, headers=dict(HEADERS))
