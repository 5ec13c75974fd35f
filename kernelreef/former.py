"""Former names of fields, which requests may use and answers contain for one release."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, GetJsonSchemaHandler, SerializerFunctionWrapHandler, model_serializer, model_validator
from pydantic_core import CoreSchema


class ReadsFormerNames(BaseModel):
    """A document that also accepts former names of its fields.

    Attributes:
        former: Former name of a field by its current one. OpenAPI lists both, the former as deprecated.
    """

    former: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _read_former_names(cls, given: object) -> object:
        """Rename former fields; a field given by both names has the value of its current one."""
        if not isinstance(given, Mapping) or not cls.former.values() & given.keys():
            return given
        current = {former: name for name, former in cls.former.items()}
        renamed = {current[name]: value for name, value in given.items() if name in current}
        return {**renamed, **{name: value for name, value in given.items() if name not in current}}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema of the document, with former names marked as deprecated."""
        # A serializer that adds fields would hide the schema of the others.
        schema = handler({name: part for name, part in core.items() if name != "serialization"})
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for new, old in cls.former.items():
            # A title of its own, because generators of clients name nested types by it; and no default to send.
            shown = {name: value for name, value in properties[new].items() if name != "default"}
            properties[old] = {**shown, "title": old.replace("_", " ").title(), "deprecated": True}
        return schema


class ShowsFormerNames(ReadsFormerNames):
    """A document that is also written with former names of its fields."""

    @model_serializer(mode="wrap")
    def _show_former_names(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        shown: dict[str, Any] = handler(self)
        return {**shown, **{old: shown[new] for new, old in self.former.items() if new in shown}}
