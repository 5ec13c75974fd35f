"""What names and digests of operators stand for."""

import pytest

from archive.store import Store
from service.errors import Conflict, NotFound
from service.operators.naming import find_operator, keep_operator
from tests.service import records
from workers.protocol import Operator


def operator(**changes: object) -> Operator:
    return Operator.model_validate({**records.OPERATOR.model_dump(), **changes})


OWN = operator(name="own")
CATALOGUE = {"own": OWN}
OLD, NEW = records.OPERATOR, operator(reference="def double(x):\n    return x + x\n")


async def test_a_name_means_the_catalogue_s_or_the_newest_handed_in(store: Store) -> None:
    for operator in (OLD, NEW):
        await keep_operator(store, CATALOGUE, operator)
    assert await find_operator(store, CATALOGUE, "own") == OWN
    assert await find_operator(store, CATALOGUE, "double") == NEW
    for operator in (OWN, OLD, NEW):
        assert await find_operator(store, CATALOGUE, operator.digest) == operator


async def test_the_catalogue_s_names_are_taken(store: Store) -> None:
    await keep_operator(store, CATALOGUE, OWN)
    with pytest.raises(Conflict, match="another name"):
        await keep_operator(store, CATALOGUE, operator(name="own", entry="double", seeds=()))


@pytest.mark.parametrize("name", ["nothing", "0" * 64])
async def test_an_unknown_operator_is_not_found(store: Store, name: str) -> None:
    with pytest.raises(NotFound):
        await find_operator(store, CATALOGUE, name)
