"""The form that starts a search: its choices, its values and their errors."""

import asyncio
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from archive.descriptors import DEFAULT_AXES, DESCRIPTORS
from kernelreef.validation import faults
from service.dashboard.rendering import Fragment
from service.dashboard.routing import SubmittedForm
from service.emitters import EMITTERS
from service.errors import InvalidInput
from service.fleet.kernelbench import SourceFile, searchable, with_seeds
from service.operators.kernelbench import is_problem, is_source, name_of_text
from service.operators.specs import parse_operator
from service.requests import LlmSettings, SearchRequest
from workers.protocol import Operator
from workers.targets import TARGETS

UNVERIFIED = "; unverified: no controls have passed on this card yet"
NO_CARD = (
    "No worker with a GPU is connected, so times can only be predicted. A GPU appears in this list once its worker "
    "has joined."
)
PASTED = "pasted"
"""Value of the operator field that selects the pasted spec."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Pattern of an operator's name."""
_CONVERTING = asyncio.Lock()
FIELDS = (
    "operator",
    "problem_name",
    "spec",
    "evaluations",
    "seed",
    "devices",
    "emitters",
    "axes",
    "models",
    "calls",
    "usd",
)
"""Fields of the form; any other error is an error in the spec."""
KEPT = ("priority", "stop", "selection")
"""Settings that the form does not show; a form filled in from a search keeps those of the search."""
FOLDED = ("seed", "emitters", "axes", "models", "calls", "usd")
"""Rarely changed fields, folded until opened by the user or by an error in one of them."""


@dataclass(frozen=True)
class FormChoice:
    """A choice with its meaning."""

    name: str
    meaning: str = ""


@dataclass(frozen=True)
class NewSearchForm(Fragment):
    """The form with its choices, its values and its errors by field.

    `note` is about the devices. `origin` is the search that the form was filled in from; empty if there is none.
    """

    template = "parts/start.html"
    name = "start-form"

    operators: tuple[str, ...]
    devices: tuple[FormChoice, ...]
    emitters: tuple[FormChoice, ...]
    axes: tuple[FormChoice, ...]
    note: str = ""
    operator: str = ""
    origin: str = ""
    spec: str = ""
    problem_name: str = ""
    chosen_devices: tuple[str, ...] = ("model:sm_90",)
    chosen_emitters: tuple[str, ...] = ("tune", "rewrite")
    chosen_axes: tuple[str, ...] = DEFAULT_AXES
    evaluations: str = "200"
    seed: str = "0"
    models: str = ""
    calls: str = ""
    usd: str = ""
    compiler: str = ""
    admit: bool = False
    wrong: Mapping[str, str] = field(default_factory=dict)

    @property
    def first_wrong(self) -> str:
        """First field with an error, for the cursor; empty if there is none."""
        return next((name for name in FIELDS if name in self.wrong), "")

    @property
    def unfolded(self) -> bool:
        """True if a folded field has an error."""
        return any(name in self.wrong for name in FOLDED)


def start_form(
    operators: Iterable[str],
    served: Iterable[str],
    sent: SubmittedForm | None = None,
    wrong: Mapping[str, str] | None = None,
    unverified: Collection[str] = frozenset(),
) -> NewSearchForm:
    """Make the form, empty or as it was submitted.

    Args:
        operators: Names in the catalogue.
        served: Devices that a worker judges on now.
        sent: Submitted values.
        wrong: Errors by field.
        unverified: Devices on which no controls have passed yet.
    """
    models = [FormChoice(f"model:{name}", f"times predicted for {sheet.card}") for name, sheet in TARGETS.items()]
    cards = [
        FormChoice(name, f"times measured by a connected worker{UNVERIFIED if name in unverified else ''}")
        for name in sorted(set(served))
        if ":" not in name
    ]
    known = NewSearchForm(
        operators=tuple(sorted(operators)),
        devices=(*cards, *models),
        emitters=tuple(FormChoice(name, _first_sentence(emitter)) for name, emitter in EMITTERS.items()),
        axes=tuple(FormChoice(name, descriptor.meaning) for name, descriptor in DESCRIPTORS.items()),
        note="" if cards else NO_CARD,
        wrong=wrong or {},
    )
    if sent is None:
        return known
    return NewSearchForm(
        **{name: getattr(known, name) for name in ("operators", "devices", "emitters", "axes", "note", "wrong")},
        operator=PASTED if is_pasted(sent) else sent.text("operator"),
        origin=sent.text("origin"),
        spec=sent.whole("spec"),
        problem_name=sent.text("problem_name"),
        chosen_devices=sent.several("devices"),
        chosen_emitters=sent.several("emitters"),
        chosen_axes=sent.several("axes"),
        evaluations=sent.text("evaluations"),
        seed=sent.text("seed"),
        models=sent.text("models"),
        calls=sent.text("calls"),
        usd=sent.text("usd"),
        compiler=sent.text("compiler"),
        admit=bool(sent.text("admit")),
    )


def is_pasted(sent: SubmittedForm) -> bool:
    """Return True if the search is for a pasted spec: pasted text counts, whatever operator is chosen in the list."""
    return bool(sent.text("spec")) or sent.text("operator") in ("", PASTED)


def read_request(sent: SubmittedForm, origin: SearchRequest | None = None) -> SearchRequest:
    """Read the request that a form describes.

    Args:
        sent: Submitted form.
        origin: Request that the form was filled in from; it gives what the form does not show.

    Raises:
        InvalidInput: If a field is invalid; `wrong_fields` tells which.
        ValidationError: If several fields are invalid.
    """
    operator: object = _spec(sent.whole("spec")) if is_pasted(sent) else sent.text("operator")
    return SearchRequest.model_validate(
        {
            "operator": operator,
            "devices": sent.several("devices"),
            "emitters": sent.several("emitters"),
            "axes": sent.several("axes") or None,
            "evaluations": sent.number("evaluations"),
            "seed": sent.number("seed"),
            "llm": _models(sent, origin.llm if origin else None),
            "compiler": sent.text("compiler") or None,
            "admit": bool(sent.text("admit")),
            **({name: getattr(origin, name) for name in KEPT} if origin else {}),
        }
    )


def filled_in(request: SearchRequest, origin: str) -> SubmittedForm:
    """Make the form that describes a request.

    Args:
        request: The request.
        origin: Id of the search that it started.
    """
    is_spec = isinstance(request.operator, dict)
    llm = request.llm
    fields = {
        "origin": origin,
        "operator": PASTED if is_spec else str(request.operator),
        "spec": json.dumps(request.operator, indent=1) if is_spec else "",
        "evaluations": str(request.evaluations),
        "seed": str(request.seed),
        "models": ", ".join(llm.backends) if llm else "",
        "calls": str(llm.calls) if llm and llm.calls is not None else "",
        "usd": f"{llm.usd:g}" if llm and llm.usd is not None else "",
        "compiler": request.compiler or "",
        "admit": "yes" if request.admit else "",
    }
    several = {"devices": request.devices, "emitters": request.emitters, "axes": request.axes or ()}
    return SubmittedForm({**{name: [text] for name, text in fields.items()}, **several})


def has_problem(sent: SubmittedForm) -> bool:
    """Return True if the pasted text must be converted, and a device is chosen to convert it for.

    A Python file becomes a spec, and a spec without a seed kernel gets one.
    """
    text = sent.whole("spec")
    return bool(sent.several("devices")) and is_pasted(sent) and (is_source(text) or _seedless(text) is not None)


async def convert_problem(sent: SubmittedForm, tell: Callable[[str], None] = lambda step: None) -> SubmittedForm:
    """Replace a pasted Python file, or a spec without a seed kernel, by a whole spec; return any other form unchanged.

    Files are converted one at a time, because each conversion takes two processes with torch.

    Args:
        sent: Submitted form.
        tell: Receives the name of each step when it begins.

    Raises:
        InvalidInput: If there is no operator with a seed kernel for it.
        Unavailable: If the worker packages are not installed on this machine, or the conversion failed.
    """
    if not has_problem(sent):
        return sent
    text, device = sent.whole("spec"), sent.several("devices")[0]
    if _CONVERTING.locked():
        tell("Waiting for another import to end")
    async with _CONVERTING:
        seedless = _seedless(text)
        if seedless is None:
            operator = await searchable(_source(sent), device, tell)
        else:
            operator = await with_seeds(seedless, device, tell)
    return SubmittedForm({**sent.fields, "spec": [operator.model_dump_json()]})


def _source(sent: SubmittedForm) -> SourceFile:
    """Return the pasted file. A given name may be that of one of its functions, and otherwise names the operator."""
    text, name = sent.whole("spec"), sent.text("problem_name")
    if is_problem(text):
        return SourceFile(text, problem_name(sent))
    if re.search(rf"^(def|class) {re.escape(name)}\b|^{re.escape(name)} *=", text, re.MULTILINE) and name:
        return SourceFile(text, "", name)
    return SourceFile(text, problem_name(sent) if name else "")


def _seedless(text: str) -> Operator | None:
    """Return the operator of a pasted spec without seed kernels; None for any other text."""
    try:
        operator = parse_operator(_spec(text))
    except InvalidInput:
        return None
    return None if operator.seeds else operator


def problem_name(sent: SubmittedForm) -> str:
    """Return the name for a pasted problem: the given one, else one from its text.

    Raises:
        InvalidInput: If the given name is not an identifier.
    """
    name = sent.text("problem_name")
    if name and not NAME.fullmatch(name):
        raise InvalidInput("begin with a letter, and use only a-z, 0-9 and _, at most 64 characters", "problem_name")
    return name or name_of_text(sent.whole("spec"))


def wrong_fields(error: InvalidInput | ValidationError) -> dict[str, str]:
    """Collect the errors by field of the form."""
    if isinstance(error, InvalidInput):
        name = _field(re.split(r"[.\[]", error.field or ""))
        return {name if name in FIELDS else "spec": error.detail}
    wrong: dict[str, str] = {}
    for found in faults(error.errors(include_url=False), SearchRequest):
        wrong.setdefault(_field([str(step) for step in found.steps]), found.problem)
    return wrong


def _field(path: Sequence[str]) -> str:
    """Find the form field that a part of a request comes from."""
    if path[:1] == ["llm"]:
        return path[1] if path[1:2] and path[1] in FIELDS else "models"
    return path[0] if path else "operator"


def _models(sent: SubmittedForm, origin: LlmSettings | None) -> dict[str, object] | None:
    """Read the LLM backends and their limits; None if no backend is named. `origin` gives what the form lacks."""
    names = [name for name in re.split(r"[,\s]+", sent.text("models")) if name]
    if not names:
        return None
    limits = {name: sent.text(name) or None for name in ("calls", "usd")}
    kept = {"strategies": origin.strategies, "tokens": origin.tokens} if origin else {}
    return {"backends": names, **kept, **limits}


def _spec(text: str) -> dict[str, Any]:
    """Parse a pasted spec, in TOML or JSON, with its sources inline."""
    if not text.strip():
        raise InvalidInput("choose an operator from the catalogue, or paste a spec", "operator")
    try:
        found = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"the spec is neither valid TOML nor valid JSON: {error}", "spec") from None
    if not isinstance(found, dict):
        raise InvalidInput("a spec is one table or object, with keys such as name, entry and inputs", "spec")
    return found


def _first_sentence(thing: object) -> str:
    """Return the first sentence of a plug-in's docstring."""
    return (type(thing).__doc__ or "").strip().split("\n\n")[0].split(". ")[0].rstrip(".").replace("\n", " ")
