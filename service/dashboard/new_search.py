"""The form that starts a search: what it offers, what was written into it, and what is wrong with that."""

import asyncio
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from archive.descriptors import DEFAULT_AXES, DESCRIPTORS
from service.dashboard.routing import SubmittedForm
from service.emitters import EMITTERS
from service.errors import InvalidInput
from service.fleet.kernelbench import searchable
from service.operators.kernelbench import is_problem, name_of_text
from service.requests import SearchRequest
from workers.targets import TARGETS

NO_CARD = (
    "No worker with a card is here, so nothing can be measured: only predictions are offered. A card appears in this "
    "list when its worker has joined."
)
PASTED = "pasted"
"""Value of the operator's field that says: look at the pasted spec instead. No operator's name has a colon."""
_LOOKING = asyncio.Lock()
FIELDS = ("operator", "spec", "evaluations", "seed", "devices", "emitters", "axes", "models", "calls", "usd")
"""Fields of the form; what is wrong elsewhere is wrong in the spec."""
FOLDED = ("seed", "emitters", "axes", "models", "calls", "usd")
"""Fields that few change, out of sight until somebody asks for them or one is wrong."""


@dataclass(frozen=True)
class FormChoice:
    """Something that may be chosen, with what it means."""

    name: str
    meaning: str = ""


@dataclass(frozen=True)
class NewSearchForm:
    """The form as it is shown: its choices, its values, and what is wrong, by field. `note` is about the devices."""

    operators: tuple[str, ...]
    devices: tuple[FormChoice, ...]
    emitters: tuple[FormChoice, ...]
    axes: tuple[FormChoice, ...]
    note: str = ""
    operator: str = ""
    spec: str = ""
    chosen_devices: tuple[str, ...] = ("model:sm_90",)
    chosen_emitters: tuple[str, ...] = ("tune", "rewrite")
    chosen_axes: tuple[str, ...] = DEFAULT_AXES
    evaluations: str = "200"
    seed: str = "0"
    models: str = ""
    calls: str = ""
    usd: str = ""
    wrong: Mapping[str, str] = field(default_factory=dict)

    @property
    def first_wrong(self) -> str:
        """The field that the cursor goes to; empty if all is well."""
        return next((name for name in FIELDS if name in self.wrong), "")

    @property
    def unfolded(self) -> bool:
        """Whether a field that is wrong would be out of sight."""
        return any(name in self.wrong for name in FOLDED)


def start_form(
    operators: Iterable[str],
    served: Iterable[str],
    sent: SubmittedForm | None = None,
    wrong: Mapping[str, str] | None = None,
) -> NewSearchForm:
    """The form, empty or as it was sent.

    Args:
        operators: Names in the catalogue.
        served: Devices that a worker judges on now.
        sent: What was written into it.
        wrong: What is wrong with that, by field.
    """
    models = [FormChoice(f"model:{name}", f"times predicted for {sheet.card}") for name, sheet in TARGETS.items()]
    cards = [
        FormChoice(name, "times measured by a worker that is here") for name in sorted(set(served)) if ":" not in name
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
        operator=sent.text("operator"),
        spec=sent.whole("spec"),
        chosen_devices=sent.several("devices"),
        chosen_emitters=sent.several("emitters"),
        chosen_axes=sent.several("axes"),
        evaluations=sent.text("evaluations"),
        seed=sent.text("seed"),
        models=sent.text("models"),
        calls=sent.text("calls"),
        usd=sent.text("usd"),
    )


def read_request(sent: SubmittedForm) -> SearchRequest:
    """What the form asks for.

    Raises:
        BadInput: If a field cannot be right; `wrong_fields` tells which.
        ValidationError: If several cannot.
    """
    operator: object = sent.text("operator")
    if operator in ("", PASTED):
        operator = _spec(sent.whole("spec"))
    return SearchRequest.model_validate(
        {
            "operator": operator,
            "devices": sent.several("devices"),
            "emitters": sent.several("emitters"),
            "axes": sent.several("axes") or None,
            "evaluations": sent.number("evaluations"),
            "seed": sent.number("seed"),
            "llm": _models(sent),
        }
    )


async def without_problem(sent: SubmittedForm) -> SubmittedForm:
    """The form as if the spec of the pasted problem of KernelBench had been pasted, if there is one.

    One is looked at at a time: each takes two processes with torch.

    Raises:
        BadInput: If no operator with a kernel to start from can be made of it.
        Unavailable: If this machine has no worker's parts, or they failed.
    """
    text, devices = sent.whole("spec"), sent.several("devices")
    if sent.text("operator") not in ("", PASTED) or not is_problem(text) or not devices:
        return sent
    async with _LOOKING:
        operator = await searchable(name_of_text(text), text, devices[0])
    return SubmittedForm({**sent.fields, "spec": [operator.model_dump_json()]})


def wrong_fields(error: InvalidInput | ValidationError) -> dict[str, str]:
    """By field of the form, what is wrong with it."""
    if isinstance(error, InvalidInput):
        name = _field(re.split(r"[.\[]", error.field or ""))
        return {name if name in FIELDS else "spec": error.detail}
    wrong: dict[str, str] = {}
    for found in error.errors(include_url=False):
        wrong.setdefault(_field([str(step) for step in found["loc"]]), _said(found["msg"]))
    return wrong


def _field(path: Sequence[str]) -> str:
    """The form's field that a part of a request comes from."""
    if path[:1] == ["llm"]:
        return path[1] if path[1:2] and path[1] in FIELDS else "models"
    return path[0] if path else "operator"


def _models(sent: SubmittedForm) -> dict[str, object] | None:
    """What models may be asked, and what they may cost; None where none is named."""
    names = [name for name in re.split(r"[,\s]+", sent.text("models")) if name]
    if not names:
        return None
    limits = {name: sent.text(name) or None for name in ("calls", "usd")}
    return {"backends": names, **limits}


def _said(message: str) -> str:
    return {"Tuple should have at least 1 item after validation, not 0": "choose at least one"}.get(message, message)


def _spec(text: str) -> dict[str, Any]:
    """A pasted spec, in TOML or JSON, with its sources inline."""
    if not text.strip():
        raise InvalidInput("choose an operator of the catalogue, or paste a spec", "operator")
    try:
        found = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"this is neither TOML nor JSON: {error}", "spec") from None
    if not isinstance(found, dict):
        raise InvalidInput("a spec is one table or object, with keys such as name, entry and inputs", "spec")
    return found


def _first_sentence(thing: object) -> str:
    """What a plug-in says of itself, in its first sentence."""
    return (type(thing).__doc__ or "").strip().split("\n\n")[0].split(". ")[0].rstrip(".").replace("\n", " ")
