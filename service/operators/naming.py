"""What a name or a digest of an operator stands for."""

import re
from collections.abc import Mapping

from archive.errors import RecordNotFound as Gone
from archive.store import Store
from service.errors import Conflict, NotFound
from workers.protocol import Operator

DIGEST = re.compile(r"[0-9a-f]{64}")
"""What every digest looks like; no name does, because names have no more than 63 characters after a letter."""


async def find_operator(store: Store, catalogue: Mapping[str, Operator], name: str) -> Operator:
    """An operator by name or digest. A name of the catalogue means the catalogue's, any other the newest handed in.

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
    except Gone as error:
        raise NotFound(str(error)) from error
    return Operator.model_validate_json(record.document)


async def keep_operator(store: Store, catalogue: Mapping[str, Operator], operator: Operator) -> None:
    """Keep an operator for later searches. Idempotent.

    Raises:
        Conflict: If its name is the catalogue's, for another operator.
    """
    own = catalogue.get(operator.name)
    if own is not None and own.digest != operator.digest:
        raise Conflict(f"the catalogue has an operator called '{operator.name}'; give yours another name", "name")
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
