"""Pages to HTML.

A page is a frozen dataclass that names its template; so is a fragment, the part that live updates replace. All text is
escaped by the templates, and the headers let nothing run that did not come from our own files.
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
"""Content-Security-Policy: scripts and styles from our files alone, nothing inline, nothing from elsewhere."""
PIECES_KEPT = 4096
"""Pieces kept as HTML, each half a kilobyte: the squares of some dozens of maps."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache, private",
    "Vary": "Accept-Encoding",
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
class PageFrame:
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


class HtmlPage:
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
    """A part of a page that updates replace; `name` is its id in the document.

    One with pieces is replaced piece by piece where nothing else has changed. Its template puts each in with `hole`,
    and a piece's own template makes the element of that id. A piece is the same for everybody who looks at it.
    """

    template: ClassVar[str]
    name: str

    @property
    def pieces(self) -> "tuple[Fragment, ...]":
        """Parts of it that change one by one."""
        return ()


@dataclass(frozen=True)
class RenderedFragment:
    """A fragment as HTML: with holes, and by name what fills them."""

    name: str
    skeleton: str
    pieces: Mapping[str, str]

    @property
    def whole(self) -> str:
        """The inside of its element."""
        return _HOLE.sub(lambda found: self.pieces[found[1]], self.skeleton) if self.pieces else self.skeleton


ENVIRONMENT = Environment(
    loader=PackageLoader("service.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
"""Templates; a misspelt name is an error, and whatever is put in is escaped."""
ENVIRONMENT.filters.update(FILTERS, outdated=outdated, provenance=provenance, relative_to=relative_to)
ENVIRONMENT.globals.update(static=STATIC_PATH)


_MARK = secrets.token_hex(8)
# Of holes: no text that anybody wrote can have it.
_HOLE = re.compile(f"<{_MARK} ([a-z0-9-]+)>")


def render(fragment: Fragment, frame: PageFrame) -> RenderedFragment:
    """A fragment as HTML; of its pieces only those that were not rendered lately."""
    skeleton = _fill(fragment, frame, lambda piece: Markup(f"<{_MARK} {piece.name}>"))
    return RenderedFragment(fragment.name, skeleton, {piece.name: _piece(piece) for piece in fragment.pieces})


def render_fragment(fragment: Fragment, frame: PageFrame) -> Markup:
    """The inside of a fragment as HTML."""
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
    """A whole page as HTML."""
    return ENVIRONMENT.get_template(page.template).render(page=page, frame=frame, hole=_piece)


def respond(page: HtmlPage, frame: PageFrame, status: int = 200) -> HTMLResponse:
    """A page as a response."""
    return HTMLResponse(render_page(page, frame), status, headers=dict(HEADERS))
