"""Tables of the command line are as wide as they need to be, whoever imported the console first."""

import pytest

from service.cli.console import err, out


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    for console in (out, err):
        monkeypatch.setattr(console, "_width", 200)


@pytest.fixture
def narrow(wide: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables have the width of a plain terminal."""
    for console in (out, err):
        monkeypatch.setattr(console, "_width", 80)
