"""Lookup of operators by name or digest."""

import re
from collections.abc import Mapping

from archive.errors import RecordNotFound
from archive.records import OperatorRecord
from archive.store import Store
from service.errors import Conflict, NotFound
from workers.protocol import Operator

DIGEST = re.compile(r"[0-9a-f]{12,64}")
"""Pattern of a digest, or of its beginning as pages and tables show it."""


async def find_operator(store: Store, catalogue: Mapping[str, Operator], name: str) -> Operator:
    """Find an operator by name, digest or the first 12 characters of its digest.

    The catalogue wins; otherwise a name means the newest submitted one.

    Raises:
        NotFound: If there is none.
        AmbiguousId: If the beginning of a digest fits several.
    """
    if name in catalogue:
        return catalogue[name]
    is_digest = DIGEST.fullmatch(name) is not None
    own = next((each for each in catalogue.values() if is_digest and each.digest.startswith(name)), None)
    if own is not None:
        return own
    try:
        record = await _stored(store, name)
    except RecordNotFound as error:
        raise NotFound(str(error)) from error
    return Operator.model_validate_json(record.document)


async def _stored(store: Store, name: str) -> OperatorRecord:
    try:
        return await store.operators.latest(name)
    except RecordNotFound:
        if not DIGEST.fullmatch(name):
            raise
    return await store.operators.get(await store.ids.whole("operator", name))


async def keep_operator(store: Store, catalogue: Mapping[str, Operator], operator: Operator) -> None:
    """Store an operator for later searches. Idempotent.

    Raises:
        Conflict: If the catalogue has a different operator of this name.
    """
    own = catalogue.get(operator.name)
    if own is not None and own.digest != operator.digest:
        raise Conflict(f"the catalogue has an operator named '{operator.name}'; choose another name", "name")
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
