"""The arena on a card, as the process that owns it sees it; `look` in `card.py` is how another one does."""

import pytest
import torch

from tests.gpu.runner.card import on_card, opened
from workers.protocol import View
from workers.runner.arena import ALIGNMENT, Arena

pytestmark = pytest.mark.gpu
VIEW = View(buffer=0, offset_bytes=8, shape=(2, 3), strides=(4, 1), dtype="float32")


def write() -> dict[str, object]:
    with opened() as (_, _, stream):
        arena = Arena.allocate(1000)
        arena.tensor(0, 1024).fill_(0)
        torch.cuda.synchronize()
        with arena.queue(stream):
            arena.view(VIEW, 256).copy_(torch.arange(1, 7).reshape(2, 3))
            queued_on = torch.cuda.current_stream().cuda_stream
        torch.cuda.synchronize()
        found = {
            "bytes": arena.bytes,
            "aligned": arena.pointer % ALIGNMENT == 0,
            "device": str(arena.device),
            "handle": len(arena.handle),
            "queued": queued_on == stream,
            "values": arena.tensor(264, 28).view(torch.float32).tolist(),
            "anything else": int(arena.tensor(0, 264).any() or arena.tensor(292, 732).any()),
        }
        arena.close()
        return found


def test_an_arena_is_memory_that_torch_sees() -> None:
    assert on_card(write) == {
        "bytes": 1024,
        "aligned": True,
        "device": "cuda:0",
        "handle": 64,
        "queued": True,
        "values": [1, 2, 3, 0, 4, 5, 6],
        "anything else": 0,
    }
