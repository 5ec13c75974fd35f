"""Validation errors in our words: the field, its value, and a valid value.

Pydantic's own texts name its types and rules, not what a person wrote. Every text about invalid input comes from here.
"""

import difflib
import json
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, RootModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from kernelreef.errors import InvalidInput

LONGEST_VALUE = 80
"""Maximum length of a quoted value, characters."""
SIMILAR = 0.5
"""Minimum similarity of a suggestion, from 0 to 1."""
TYPE_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "decimal": "a number",
    "string": "text",
    "string_sub": "text",
    "string_unicode": "text",
    "bytes": "text",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "iterable": "a list",
    "dict": "an object with keys",
    "mapping": "an object with keys",
    "model": "an object with keys",
    "model_attributes": "an object with keys",
    "dataclass": "an object with keys",
    "date": "a date, such as 2027-01-31",
    "time": "a time, such as 12:30:00",
    "datetime": "a date and time, such as 2027-01-31T12:00:00Z",
    "timezone": "a date and time with its zone, such as 2027-01-31T12:00:00Z",
    "time_delta": "a duration",
    "uuid": "an id",
    "url": "an address, such as https://reef.example.org",
    "path": "a path",
    "none": "null",
}
"""Description of a valid value by the beginning of pydantic's name of an error of type."""
BOUNDS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "at most {}"),
    "less_than": ("lt", "less than {}"),
    "multiple_of": ("multiple_of", "a multiple of {}"),
}
"""Name of the bound in the context of an error about a number, and its text."""
INTERNAL = re.compile(r"[^\w.:-]|^(?:bool|int|float|str|constrained-(?:str|int|float))$")
"""Pattern of parts of pydantic's locations that name its own validators; a type's name is one outside a model."""


@dataclass(frozen=True)
class FieldFault:
    """One invalid field.

    Attributes:
        steps: Names and indices that lead to the field; empty for the whole document.
        problem: Fault and remedy, without the path.
    """

    steps: tuple[int | str, ...]
    problem: str

    @property
    def path(self) -> str:
        """Path of the field, such as `stop.plateau` or `devices[0]`."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps).removeprefix(".")


def faults(errors: Sequence[ErrorDetails], document: object = None) -> list[FieldFault]:
    """Describe validation errors.

    Args:
        errors: Errors from `ValidationError.errors`; values are quoted unless they are left out.
        document: Type that was validated; None if unknown. It gives the known names, for suggestions.
    """
    ordered = most_telling_first(errors)
    return [FieldFault(_steps(error, document), describe(error, document)) for error in ordered]


def most_telling_first(errors: Iterable[ErrorDetails]) -> list[ErrorDetails]:
    """Order errors so that unknown names come first, because a misspelt name also causes a missing one."""
    return sorted(errors, key=lambda error: error["type"] != "extra_forbidden")


def invalid(error: ValidationError, document: object = None, *, secret: bool = False) -> InvalidInput:
    """Make an exception of the first of a document's errors.

    Args:
        error: Error of the validation.
        document: Type that was validated.
        secret: True to quote no value.
    """
    first = faults(error.errors(include_url=False, include_input=not secret), document)[0]
    return InvalidInput(first.problem, first.path or None)


def nearest(word: object, known: Iterable[str]) -> str:
    """Suggest the most similar known word, such as `; did you mean 'dtype'?`; empty if none is similar."""
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=SIMILAR)
    return f"; did you mean '{close[0]}'?" if close else ""


def describe(error: ErrorDetails, document: object = None) -> str:
    """Describe one validation error: fault and remedy, without the path."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        known = _names(_types(document, error["loc"][:-1]))
        listed = f"; known here: {', '.join(known)}" if known else ""
        return f"unknown name{nearest(error['loc'][-1], known) or listed}"
    if kind in ("value_error", "assertion_error"):
        return error["msg"].partition(", ")[2]
    if kind in ("enum", "literal_error"):
        choices = re.findall(r"'([^']*)'", str(context.get("expected", ""))) or [str(context.get("expected"))]
        listed = ", ".join(choices)
        suggestion = nearest(error["input"], choices) if _is_given(error) else ""
        return f"{quoted(error)} is not one of {listed}{suggestion}"
    if kind == "json_invalid":
        return f"is not valid JSON: {context.get('error', 'it ends too early')}"
    return _of_size(error, context) or _of_type(error) or _other(error)


def quoted(error: ErrorDetails) -> str:
    """Quote the invalid value, shortened; `it` if values are left out."""
    if not _is_given(error):
        return "it"
    value = error["input"]
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _of_size(error: ErrorDetails, context: Mapping[str, Any]) -> str | None:
    kind = error["type"]
    if kind in BOUNDS:
        name, words = BOUNDS[kind]
        return f"must be {words.format(str(context[name]).removesuffix('.0'))}{_but(error)}"
    if kind == "too_short":
        count = context["min_length"]
        return f"needs at least {count} item{'s' * (count != 1)}"
    if kind == "too_long":
        return f"may have at most {context['max_length']} items"
    if kind == "string_too_short":
        least = context["min_length"]
        return "must not be empty" if least == 1 else f"must have at least {least} characters{_but(error)}"
    if kind == "string_too_long":
        return f"may have at most {context['max_length']} characters"
    if kind == "string_pattern_mismatch":
        return f"must match {context['pattern']}{_but(error)}"
    return None


def _of_type(error: ErrorDetails) -> str | None:
    """Describe an error such as `int_parsing` or `finite_number` by its longest known beginning."""
    parts = error["type"].split("_")
    beginnings = ("_".join(parts[:count]) for count in range(len(parts), 0, -1))
    words = next((TYPE_WORDS[beginning] for beginning in beginnings if beginning in TYPE_WORDS), None)
    return None if words is None else f"must be {words}{_but(error)}"


def _other(error: ErrorDetails) -> str:
    """Return the text of an error of our own kind; pydantic's subject is left out of any other."""
    text = re.sub(r"^(?:Input|Value|Object|String) should ", "must ", error["msg"])
    return text[:1].lower() + text[1:]


def _but(error: ErrorDetails) -> str:
    return f", not {quoted(error)}" if _is_given(error) else ""


def _is_given(error: Mapping[str, Any]) -> bool:
    """Return True if an error holds the invalid value, which `errors` may leave out."""
    return "input" in error


def _steps(error: ErrorDetails, document: object) -> tuple[int | str, ...]:
    """Return the parts of an error's location that a person wrote, without pydantic's names of its validators."""
    location = error["loc"]
    written = [step for index, step in enumerate(location) if _is_written(step, _types(document, location[:index]))]
    if error["type"] == "extra_forbidden" and written[-1:] != [location[-1]]:
        written.append(location[-1])
    return tuple(written)


def _is_written(step: int | str, kinds: Sequence[object]) -> bool:
    if isinstance(step, int) or step in _names(kinds):
        return True
    return INTERNAL.search(step) is None and (not kinds or any(_is_mapping(kind) for kind in kinds))


def _names(kinds: Iterable[object]) -> list[str]:
    """List the names of the fields that a value of some types may have."""
    return list(dict.fromkeys(name for kind in kinds for name in _fields(kind)))


def _fields(kind: object) -> dict[str, FieldInfo]:
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return {}
    return {field.alias or name: field for name, field in kind.model_fields.items()}


def _types(document: object, way: Sequence[int | str]) -> list[object]:
    """List the types that a value at a place may have."""
    kinds = _members(document)
    for step in way:
        # A part that leads nowhere names a validator or a member of a union.
        kinds = [part for kind in kinds for part in _below(kind, step)] or kinds
    return kinds


def _below(kind: object, step: int | str) -> list[object]:
    """List the types of an item or a field of a value."""
    fields = _fields(kind)
    if fields:
        return _members(fields[step].annotation) if step in fields else []
    arguments = [each for each in get_args(kind) if each is not Ellipsis]
    if arguments and _is_mapping(kind):
        return _members(arguments[-1])
    return [member for each in arguments for member in _members(each)] if isinstance(step, int) else []


def _is_mapping(kind: object) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _members(kind: object) -> list[object]:
    """List the members of a union, without annotations; a model with one unnamed value counts as that value."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _members(get_args(kind)[0])
    if origin in (Union, types.UnionType):
        return [member for each in get_args(kind) for member in _members(each)]
    if isinstance(kind, type) and issubclass(kind, RootModel):
        return _members(kind.model_fields["root"].annotation)
    return [] if kind is None else [kind]
