"""A client of the service, typed, for scripts and for the command line.

    from service.client import Reef

    with Reef("http://127.0.0.1:8700") as reef:
        search = reef.submit("rmsnorm", budget=50)

`AsyncReef` is the same for programs that run on an event loop; it is the implementation, and `Reef` stands on it. What
comes back are the schemas that the service itself answers with. `docs/reference/python-client.md` shows more.
"""

from service.client.asynchronous import AsyncReef
from service.client.problems import RequestRefused, ServiceUnreachable
from service.client.streams import Event
from service.client.synchronous import Reef

__all__ = ["AsyncReef", "Event", "Reef", "RequestRefused", "ServiceUnreachable"]
