"""Packages beside rivals: kernels that make descriptors get scratch memory, and a rival that fails costs no other."""

import contextlib
import json
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from triton.runtime._allocation import _allocator

from benchmarks import exported_card
from benchmarks.exported_card import CardTurns, compare_rivals, with_scratch


def test_scratch_memory_is_provided_for_the_calls_of_one_function_alone() -> None:
    before = _allocator.get()
    seen = with_scratch(lambda *given: (_allocator.get(), given))(1, 2)
    assert seen[0] is not before and seen[1] == (1, 2) and _allocator.get() is before


def test_a_rival_that_fails_is_told_and_the_others_are_compared(tmp_path: Path, monkeypatch: Any) -> None:
    def failing(case: Any, rival: Any, sizes: dict[str, int], asked: Namespace) -> dict[str, Any]:
        if sizes["M"] == 1:
            raise RuntimeError("no allocator was set")
        return {"served": True, "own_us": 2.0, "rival_us": 3.0, "pytorch_us": 9.0}

    monkeypatch.setattr(exported_card, "timed_beside", failing)
    rivals = [{"operator": "matmul", "sizes": {"M": size}, "source": "code"} for size in (1, 2)]
    (tmp_path / "rivals.json").write_text(json.dumps([*rivals, {**rivals[0], "operator": "softmax"}]))
    case = SimpleNamespace(entry="matmul", loaded=lambda name, path: path.read_text())
    with contextlib.closing(CardTurns([])) as turns:
        asked = Namespace(device="cpu", provenance="", rivals=tmp_path / "rivals.json", out=tmp_path, turns=turns)
        compare_rivals(case, asked)  # type: ignore[arg-type]
    row = json.loads((tmp_path / "matmul_rivals.json").read_text())["row"]
    first, second = row["rivals"]
    assert "no allocator" in first["failed"] and second["own_us"] == 2.0 and second["source"] is None
    assert row["over_rival"] == 1.5
