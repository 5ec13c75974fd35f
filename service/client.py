"""Alias of `kernelreef` for one release."""

import warnings

from kernelreef import AsyncReef, Event, Reef, RequestRefused, ServiceUnreachable

__all__ = ["AsyncReef", "Event", "Reef", "RequestRefused", "ServiceUnreachable"]

warnings.warn("service.client is now kernelreef: from kernelreef import Reef", DeprecationWarning, stacklevel=2)
