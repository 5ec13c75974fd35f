"""Lookup of operators by name or digest."""

import re
from collections.abc import Mapping

from archive.errors import RecordNotFound
from archive.store import Store
from service.errors import Conflict, NotFound
from workers.protocol import Operator

DIGEST = re.compile(r"[0-9a-f]{64}")
"""Pattern of a digest. No name matches it: names have at most 63 characters after the first letter."""


async def find_operator(store: Store, catalogue: Mapping[str, Operator], name: str) -> Operator:
    """Find an operator by name or digest. The catalogue wins; otherwise a name means the newest submitted one.

    Raises:
        NotFound: If there is none.
    """
    if name in catalogue:
        return catalogue[name]
    own = next((operator for operator in catalogue.values() if operator.digest == name), None)
    if own is not None:
        return own
    try:
        record = await (store.operators.get(name) if DIGEST.fullmatch(name) else store.operators.latest(name))
    except RecordNotFound as error:
        raise NotFound(str(error)) from error
    return Operator.model_validate_json(record.document)


async def keep_operator(store: Store, catalogue: Mapping[str, Operator], operator: Operator) -> None:
    """Store an operator for later searches. Idempotent.

    Raises:
        Conflict: If the catalogue has a different operator of this name.
    """
    own = catalogue.get(operator.name)
    if own is not None and own.digest != operator.digest:
        raise Conflict(f"the catalogue has an operator named '{operator.name}'; choose another name", "name")
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
