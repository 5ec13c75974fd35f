"""Detection of launches whose programs may wait for each other, so that a few of them cannot represent all."""

from collections.abc import Iterator
from types import CodeType

from workers.interpreter.translation import Functions
from workers.protocol import Launch
from workers.protocol.tags import untagged

_LOOP = "__continue__"


def may_wait(functions: Functions, launch: Launch) -> bool:
    """True if a launch can reach a `while` loop, which may wait for another program's store.

    Args:
        functions: The candidate's functions, translated.
        launch: The launch; it names the first function and may pass others to it.
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
    """Yield the names that a function's code and nested code use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
