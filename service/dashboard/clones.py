"""The request of a stored search, to fill in the form with it or to start it again."""

import json

from pydantic import ValidationError

from archive.records import SearchRecord
from service.coordinator import Coordinator
from service.errors import InvalidInput
from service.generation.emitter_stats import selection_of
from service.requests import SearchRequest


async def request_of(running: Coordinator, search: SearchRecord) -> SearchRequest:
    """Make the request that starts an equal search: the catalogue's operator if it is unchanged, else its spec.

    Raises:
        InvalidInput: If this release accepts a setting of the search no longer.
    """
    document = (await running.store.operators.get(search.operator)).document
    known = running.operators().get(search.operator_name)
    same = known is not None and known.digest == search.operator
    try:
        return SearchRequest.model_validate(
            {
                "operator": search.operator_name if same else json.loads(document),
                "devices": search.devices,
                "emitters": search.emitters,
                "axes": [axis.descriptor for axis in search.axes],
                "evaluations": search.evaluations,
                "seed": search.seed,
                "priority": search.priority,
                "llm": search.llm,
                "stop": search.stop,
                "selection": selection_of(search),
                "name": search.name,
                "tags": search.tags,
                "notes": search.notes,
                "admit": search.admit,
                "compiler": search.compiler,
            }
        )
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, found["loc"]))
        raise InvalidInput(f"this release does not accept this setting of the search: {found['msg']}", where) from error
