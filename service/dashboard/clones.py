"""The request of a stored search, to fill in the form with it or to start it again."""

import json

from archive.records import SearchRecord
from service.coordinator import Coordinator
from service.generation.emitter_stats import selection_of
from service.requests import LlmSettings, SearchRequest, StopRules


async def request_of(running: Coordinator, search: SearchRecord) -> SearchRequest:
    """Make the request that starts an equal search: the catalogue's operator if it is unchanged, else its spec."""
    document = (await running.store.operators.get(search.operator)).document
    known = running.operators().get(search.operator_name)
    same = known is not None and known.digest == search.operator
    return SearchRequest(
        operator=search.operator_name if same else json.loads(document),
        devices=search.devices,
        emitters=search.emitters,
        axes=tuple(axis.descriptor for axis in search.axes),
        evaluations=search.evaluations,
        seed=search.seed,
        priority=search.priority,
        llm=None if search.llm is None else LlmSettings.model_validate(search.llm),
        stop=None if search.stop is None else StopRules.model_validate(search.stop),
        selection=selection_of(search),
        name=search.name,
        tags=search.tags,
        notes=search.notes,
    )
