"""The old name of the client works for one release, and says which the new one is."""

import importlib
import sys

import pytest

import kernelreef


def test_the_old_name_is_an_alias() -> None:
    sys.modules.pop("service.client", None)
    with pytest.warns(DeprecationWarning, match="from kernelreef import Reef"):
        old = importlib.import_module("service.client")
    assert old.__all__ == ["AsyncReef", "Event", "Reef", "RequestRefused", "ServiceUnreachable"]
    assert all(getattr(old, name) is getattr(kernelreef, name) for name in old.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Answer'"):
        _ = kernelreef.Answer
