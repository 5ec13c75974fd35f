"""The request of a stored search, to fill in the form with it or to start it again."""

from archive.records import SearchRecord
from service.coordinator import Coordinator
from service.dashboard.new_search import PASTED
from service.dashboard.routing import SubmittedForm
from service.requests import LlmSettings, SearchRequest, Selection, StopRules


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
        llm=None if search.llm is None else LlmSettings.model_validate(_given(LlmSettings, search.llm)),
        stop=None if search.stop is None else StopRules.model_validate(search.stop),
        selection=Selection.model_validate(search.selection or {}),
        name=search.name,
        tags=search.tags,
        notes=search.notes,
    )
