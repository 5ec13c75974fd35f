"""Pages as a test reads them: what stands there, and what must never stand there."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

import httpx

VOID = frozenset({"meta", "link", "input", "br", "img", "hr", "col"})
OURS = ("/static/",)
FRAME_HEADERS = ("content-security-policy", "x-content-type-options", "referrer-policy")


@dataclass
class Document(HTMLParser):
    """A parsed page: its tags with their attributes, its text, and whether tags close as they should."""

    html: str
    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.html)
        self.close()
        self.wrong += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes something else, at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        """All text, in the page's order, with single spaces."""
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        """Attributes of every tag of a name."""
        return [attributes for name, attributes in self.tags if name == tag]


def read(answer: httpx.Response, status: int = 200) -> Document:
    """Parse a page and hold it against what every page has to keep."""
    assert answer.status_code == status, answer.text[:400]
    assert answer.headers["content-type"].startswith("text/html")
    assert all(header in answer.headers for header in FRAME_HEADERS)
    document = Document(answer.text)
    assert faults(document) == []
    return document


def faults(document: Document) -> list[str]:
    """What a page may not do: run or style anything inline, load from elsewhere, or lose a name."""
    found = list(document.wrong)
    ids = [attributes["id"] for _, attributes in document.tags if "id" in attributes]
    found += [f"id {id} stands {ids.count(id)} times" for id in set(ids) if ids.count(id) > 1]
    for tag, attributes in document.tags:
        found += [f"<{tag} {name}>" for name in attributes if name.startswith("on") or name == "style"]
        found += _loads(tag, attributes)
        for reference in ("for", "aria-labelledby", "aria-describedby"):
            found += [
                f"{reference}={id} leads nowhere" for id in attributes.get(reference, "").split() if id not in ids
            ]
        if attributes.get("role") in ("region", "img") and not attributes.keys() & {"aria-label", "aria-labelledby"}:
            found.append(f"<{tag} role={attributes['role']}> has no name")
    return found + _unlabelled(document)


def _loads(tag: str, attributes: dict[str, str]) -> list[str]:
    if tag in ("iframe", "object", "embed", "base", "style", "img"):
        return [f"<{tag}>"]
    if tag == "script":
        return [] if attributes.get("src", "").startswith(OURS) else ["<script> of its own"]
    address = attributes.get("href", attributes.get("action", attributes.get("src", "/")))
    ours = address.startswith(("/", "#", "?")) and not address.startswith("//")
    return [] if ours else [f"<{tag}> leads to {address}"]


def _unlabelled(document: Document) -> list[str]:
    """Fields that no label names: those that are neither in a label nor named by one."""
    named = {attributes.get("for") for attributes in document.all("label")}
    fields = [(tag, each) for tag, each in document.tags if tag in ("select", "textarea", "input")]
    visible = [(tag, each) for tag, each in fields if each.get("type") not in ("hidden", "checkbox")]
    return [
        f"<{tag} name={each.get('name')}> has no label"
        for tag, each in visible
        if "id" in each and each["id"] not in named
    ]
