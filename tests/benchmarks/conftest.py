"""Fixtures of benchmarks' tests."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from tests.benchmarks.paper_card import PaperEvent, spend


@pytest.fixture
def paper_card(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A card on paper, and what is enqueued on it: every call of `double` takes a millisecond."""
    log: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("synchronize"))
    monkeypatch.setattr(torch.cuda, "graph", lambda *_: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda **_: SimpleNamespace(replay=lambda: spend(log, "graph")))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: log.append(f"hold {cycles}"))
    monkeypatch.setattr(torch.cuda, "Event", PaperEvent)
    monkeypatch.setattr(PaperEvent, "late", 0)
    return log
