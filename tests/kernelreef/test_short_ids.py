"""The short form of an id is its end, which tells ids of the same moment apart."""

from uuid6 import uuid7

from kernelreef.short_ids import SHORT_LENGTH, brief


def test_ids_of_one_moment_have_different_short_forms() -> None:
    ids = [str(uuid7()) for _ in range(20)]
    assert len({id[:SHORT_LENGTH] for id in ids}) == 1
    assert len({brief(id) for id in ids}) == 20
    assert all(id.endswith(brief(id)) and len(brief(id)) == SHORT_LENGTH for id in ids)
