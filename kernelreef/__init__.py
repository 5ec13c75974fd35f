"""Kernelreef for scripts: a typed client of the service.

    from kernelreef import Reef

    with Reef("http://127.0.0.1:8700") as reef:
        search = reef.submit("rmsnorm", evaluations=50)

`search(function, inputs)` makes an operator from a PyTorch function or module, searches, and returns the best kernel;
`judge(function, inputs, kernel=...)` judges one. `AsyncReef` is the same as `Reef` for programs that run on an event
loop. Methods return the models of `kernelreef.models`. `docs/reference/python-client.md` shows more. Names are imported
on first use: the command line needs no HTTP client to list its commands.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelreef.asynchronous import AsyncReef
    from kernelreef.functions import judge, search
    from kernelreef.problems import RequestRefused, ServiceUnreachable
    from kernelreef.streams import Event
    from kernelreef.synchronous import Reef

__all__ = ["AsyncReef", "Event", "Reef", "RequestRefused", "ServiceUnreachable", "judge", "search"]

_MODULES = {
    "AsyncReef": "asynchronous",
    "Event": "streams",
    "Reef": "synchronous",
    "RequestRefused": "problems",
    "ServiceUnreachable": "problems",
    "judge": "functions",
    "search": "functions",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
