"""Whether programs of a launch may wait for each other, so that some of them cannot stand for all."""

from collections.abc import Iterator
from types import CodeType

from workers.interpreter.translation import Functions
from workers.protocol import Launch
from workers.protocol.tags import untagged

_LOOP = "__continue__"


def may_wait(functions: Functions, launch: Launch) -> bool:
    """Whether a launch gets to a `while` loop, which may wait for another program's store.

    Args:
        functions: The candidate's, translated.
        launch: Names the function that is called first, and may pass others to it.
    """
    texts = (untagged(value) for value in launch.constants.values() if isinstance(value, str))
    given = [name for tag, name in texts if tag == "function"]
    waiting, seen = [launch.function.rpartition(".")[2], *given], set[str]()
    if waiting[0] not in functions:
        return True
    while waiting:
        name = waiting.pop()
        if name in functions and name not in seen:
            seen.add(name)
            names = set(_names(functions[name].__code__))
            if _LOOP in names:
                return True
            waiting += names
    return False


def _names(code: CodeType) -> Iterator[str]:
    """Names that a function's code uses, and code within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
