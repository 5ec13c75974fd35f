"""The checker on a real card: two share it, and it looks into arenas of this process. Prints one JSON object.

    python -m tests.gpu.checker.scene [--speed]

A process of its own, because the checker must be forked before the card is opened. `trials` maps what was played to
what the checker said; `speed` has microseconds for each timed output.
"""

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from tests.workers.checks.cases import FAULTS, HONEST, LONGER, operator
from tests.workers.oracle.interpreted import answer
from tests.workers.oracle.paper import measure_one
from tests.workers.oracle.sieve import Measures, margins
from tests.workers.oracle.stage import SEED, Kernel, Stage
from workers.checks.tolerance import is_finite
from workers.child_process import ChildConnection
from workers.commands import TIMED, AttachArena, ExaminedRuns, ExamineIdle, InputContent, Order, PairSide, Reply
from workers.device_kernels import SupportKernel, compile_support, zone_seed
from workers.inputs import DRAWS
from workers.oracle import Oracle, compile_oracle, open_card
from workers.oracle.answer_cache import AnswerCache
from workers.oracle.base import OracleSubject, PlanRun
from workers.oracle.card import CudaOracleCard
from workers.oracle.fast_check import FastCheck
from workers.oracle.red_zones import describe_damage
from workers.oracle.server import demand_precision
from workers.oracle.views import outputs
from workers.protocol import FIRST_CARD
from workers.reference import evaluate
from workers.runner.arena import Arena
from workers.shared_process import SharedConnection

ARENA_BYTES = 16 * 2**30
FAR = (0, 2**31 - 1, 2**31, 5 * 2**30 + 3, 2**33, ARENA_BYTES - 1)
"""Places in the arena that are written to where no run has its own, beyond what 32 bits count among them."""
STRETCH_BYTES = 2**22
ASK_S = 120.0
SHAPES: dict[str, tuple[dict[str, int], int, int]] = {
    "rmsnorm M=64,N=1024": ({"M": 64, "N": 1024}, 64, 8),
    "rmsnorm M=4096,N=4096": ({"M": 4096, "N": 4096}, 4, 4),
    "softmax M=32768,N=1024": ({"M": 32768, "N": 1024}, 4, 4),
    "layernorm M=8192,N=1599": ({"M": 8192, "N": 1599}, 4, 4),
    "swiglu M=4096,N=14336": ({"M": 4096, "N": 14336}, 4, 4),
    "matmul M=4096,N=4096,K=4096": ({"M": 4096, "N": 4096, "K": 4096}, 4, 4),
    "attention H=64,M=2048,N=128": ({"H": 64, "M": 2048, "N": 128}, 4, 2),
    "cross_entropy M=4096,N=32000": ({"M": 4096, "N": 32000}, 4, 4),
}
"""Sizes, calls a sample and pairs."""


class HostCard(CudaOracleCard):
    """The card with an arena of its own, on which runs are played."""

    def __init__(self, kernels: Mapping[str, SupportKernel]) -> None:
        super().__init__(FIRST_CARD.card, kernels)
        self._arena = Arena.allocate(ARENA_BYTES)
        self.arena = self._arena.tensor(0, ARENA_BYTES)
        self.handle = self._arena.handle.hex()

    def prepare(self, run: PlanRun) -> None:
        base, seed = self._arena.pointer, zone_seed(run.content.seed)
        self._support.zones_fill(self._stream, base, run.slot.zones, seed)
        sizes = zip(run.slot.buffers, run.plan.buffers, strict=True)
        self._support.poison(self._stream, [(base + offset, buffer.bytes) for offset, buffer in sizes])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    target = _target()
    kernels = {**compile_support(target), **compile_oracle(target)}
    receive = Oracle(functools.partial(open_card, FIRST_CARD.card, kernels)).receive
    folder = Path(tempfile.mkdtemp())
    line, other = SharedConnection(folder, receive), SharedConnection(folder, receive)
    greeting, _ = line.hear(ASK_S), other.hear(ASK_S)
    card = HostCard(kernels)
    demand_precision()

    def ask(order: Order) -> Reply:
        torch.cuda.synchronize()
        return line.ask(order, ASK_S)

    ask(AttachArena(handle=card.handle, arena_bytes=ARENA_BYTES))
    stage = functools.partial(Stage, card=card, ask=ask)
    found: dict[str, object] = {"greeting": greeting.model_dump(mode="json"), "precision": precision()}
    found["kernels"] = list(disagreements(card))
    found["trials"] = {name: _said(reply) for name, reply in trials(stage)}
    found["finite"] = finiteness(card.arena)
    found["arenas"] = arenas(line, other, card)
    if options.speed:
        found["speed"] = {name: speed(card, stage, name) for name in SHAPES}
    for each in (line, other):
        each.close()
    sys.stdout.write(json.dumps(found) + "\n")


def trials(stage: Callable[..., Stage]) -> Iterator[tuple[str, Reply]]:
    """What the checker says of honest kernels and of faults, on drawn content and in rounds."""
    for name, kernel in HONEST.items():
        for dtype in ("bfloat16", "float32"):
            scene = stage(operator(name, dtype))
            for draw in (*DRAWS, TIMED):
                yield f"honest {name} {dtype} {draw}", scene.examine(kernel, InputContent(draw=draw, seed=SEED))
            yield f"honest {name} {dtype} round", scene.examine_round(kernel, kernel)
    for fault, (name, kernel, outcomes) in FAULTS.items():
        if "wrong_output_type" not in outcomes:
            yield f"fault {fault}", _first_failure(stage(operator(*name.split(":")), **LONGER.get(fault, {})), kernel)
    for fault in ("zeros", "scaled by 1.001", "input changed", "sum for mean", "tf32"):
        name, kernel, _ = FAULTS[fault]
        scene = stage(operator(*name.split(":")))
        yield f"round {fault}", scene.examine_round(kernel, HONEST[scene.operator.name])
    scene = stage(operator("softmax"))
    yield "never written", scene.examine(lambda x: None, InputContent(draw="normal", seed=SEED))
    yield from _beside(stage(operator("softmax")))
    yield from _twice(stage(operator("softmax")))
    yield from _far(stage(operator("softmax")))
    scene = stage(operator("attention"), H=64, M=16384, N=128)
    yield "too large", scene.examine(lambda q, k, v: None, InputContent(draw="normal", seed=SEED))
    scene = stage(operator("softmax"))
    yield "after too large", scene.examine(HONEST["softmax"], InputContent(draw="normal", seed=SEED))


def arenas(line: ChildConnection, other: ChildConnection, card: HostCard) -> list[list[str]]:
    """What two who share the checker are told of arenas of their own: both clean, one of them written to, neither."""
    idle, theirs = ExamineIdle(ranges=((0, STRETCH_BYTES),)), Arena.allocate(STRETCH_BYTES)
    other.ask(AttachArena(handle=theirs.handle.hex(), arena_bytes=STRETCH_BYTES), ASK_S)
    found = []
    for mine, its in ((0xFF, 0xFF), (0xFF, 0), (0, 0xFF)):
        card.arena[:STRETCH_BYTES].fill_(mine)
        theirs.tensor(0, STRETCH_BYTES).fill_(its)
        torch.cuda.synchronize()
        found.append([_said(each.ask(idle, ASK_S)).partition(":")[0] for each in (line, other)])
    return found


def finiteness(arena: torch.Tensor) -> dict[str, bool]:
    """Whether all of an arena is taken for finite, with a NaN nowhere, and at one place after another."""
    values = arena.view(torch.float32)
    values.fill_(1.0)
    found = {"nowhere": is_finite(values)}
    for place in FAR:
        values[place // 4] = torch.nan
        found[str(place)] = is_finite(values)
        values[place // 4] = 1.0
    return found


def _first_failure(scene: Stage, kernel: Kernel) -> Reply:
    for draw in DRAWS:
        reply = scene.examine(kernel, InputContent(draw=draw, seed=SEED))
        if not isinstance(reply, ExaminedRuns) or reply.outcome is not None:
            break
    return reply


def _beside(scene: Stage) -> Iterator[tuple[str, Reply]]:
    (slot,) = scene.slots(1)
    content = InputContent(draw="normal", seed=SEED)
    scene.play(HONEST["softmax"], slot, content)
    scene.card.arena[slot.zones[1][0] + 5] ^= 1
    yield "beside a buffer", scene.ask(scene.order(content, slot))


def _far(scene: Stage) -> Iterator[tuple[str, Reply]]:
    scene.card.arena.fill_(0xFF)
    look = ExamineIdle(ranges=((0, ARENA_BYTES),))
    yield "nowhere", scene.ask(look)
    for place in FAR:
        scene.card.arena[place] = 7
        yield f"far off, at {place}", scene.ask(look)
        scene.card.arena[place] = 0xFF


def _twice(scene: Stage) -> Iterator[tuple[str, Reply]]:
    slots, content = scene.slots(2), InputContent(draw="normal", seed=SEED)
    for slot in slots:
        scene.play(HONEST["softmax"], slot, content)
    yield "repeated", scene.ask(scene.order(content, *slots, compared=True))
    result = outputs(scene.card, [PlanRun(scene.plan, slots[0], content)])[0][0].flatten()
    result[(result - result.mean()).abs().argmin()] *= 1.02
    yield "not repeated", scene.ask(scene.order(content, *slots, compared=True))


FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def disagreements(card: HostCard) -> Iterator[str]:
    """Cases in which the kernels do not find what torch finds."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, *FLOAT8):
        for rows, columns in ((1, 1), (3, 40), (17, 130), (48, 96), (64, 4096), (2, 20001)):
            kept = torch.float32 if dtype.itemsize < 4 else torch.float64
            values = torch.randn(3, rows, columns, device=card.device).to(kept)
            values[0, 0, 0] = float("inf")
            outputs = (values * (1 + (0.1 if dtype in FLOAT8 else 1e-3) * torch.randn_like(values))).to(dtype)
            outputs[1, -1, -1] = float("nan")
            with card.device:
                answers = [answer(each, dtype) for each in values]
            rough = [replace(each, squares=each.squares * columns) for each in answers]
            for name, bounds in (("strict", answers), ("rough", rough)):
                found = card.margins(list(outputs), bounds)
                each = [measure_one(one, other) for one, other in zip(outputs, bounds, strict=True)]
                expected = margins(Measures(*(torch.stack(part) for part in zip(*each, strict=True))), bounds)
                if not torch.allclose(found, expected, rtol=1e-3, atol=1e-3):
                    yield f"{name} of {dtype} ({rows}, {columns}): {found.tolist()} for {expected.tolist()}"
    one = torch.randint(0, 256, (100_003,), dtype=torch.uint8, device=card.device)
    other = one.clone()
    other[-1] ^= 1
    if (card.differences([one, one], [one.clone(), other]) > 0).tolist() != [False, True]:
        yield "differences"
    yield from _wrong_sums(card)


def _wrong_sums(card: HostCard) -> Iterator[str]:
    """Memory of odd sizes that is equal, of which one byte is another, and of which two words have changed places."""
    one = torch.randint(0, 256, (3 * 2**20 + 5,), dtype=torch.uint8, device=card.device)
    others = [one.clone() for _ in range(4)]
    others[1][-1] ^= 1
    others[2][8:16], others[2][16:24] = one[16:24], one[8:16]
    sizes = (one.numel(), 2**20, 13)
    found = card.sums([[other.data_ptr()] * len(sizes) for other in (one, *others)], sizes, 2**62 + 1)
    same = (found == found[0]).tolist()
    if same != [[True] * 3, [True] * 3, [False, True, True], [False, False, False], [True] * 3]:
        yield f"sums: {same}"


def precision() -> dict[str, float]:
    """Relative errors of float32 arithmetic against float64: 1e-7 times a little, or TF32 is in use."""
    x, y = (torch.randn(512, 512, device="cuda", dtype=torch.float64) for _ in range(2))
    image, weight = (
        torch.randn(4, 64, 32, 32, device="cuda").double(),
        torch.randn(64, 64, 3, 3, device="cuda").double(),
    )
    exact = {"matmul": x @ y, "conv": torch.nn.functional.conv2d(image, weight)}
    rough = {"matmul": x.float() @ y.float(), "conv": torch.nn.functional.conv2d(image.float(), weight.float())}
    return {name: float((rough[name] - exact[name]).norm() / exact[name].norm()) for name in exact}


def speed(card: HostCard, stage: Callable[..., Stage], name: str) -> dict[str, float]:
    """How long a look at a round takes, in all and by part, for each output."""
    dims, calls, pairs = SHAPES[name]
    scene = stage(operator(name.split()[0]), **dims)

    def native(*given: torch.Tensor) -> torch.Tensor:
        return evaluate(scene.graph, given, double=False)[0]

    order = scene.round(native, native, calls, pairs, contents=max(16, 2 * calls))
    runs = [
        PlanRun(scene.plan, order.round.slots[sample.side][slot], InputContent(draw=TIMED, seed=SEED, stream=stream))
        for sample in order.round.samples
        for slot, stream in zip(sample.slots, sample.streams, strict=True)
    ]
    found = {"outputs": float(len(runs)), "bytes": float(scene.plan.buffers[-1].bytes)}
    found["first_us"] = _per_run(lambda: scene.ask(order), runs)
    found["then_us"] = min(_per_run(lambda: scene.ask(order), runs) for _ in range(3))
    subject = OracleSubject(scene.operator, {scene.shape.key: scene.graph})
    fast_check = FastCheck(card, subject, AnswerCache(card.memory_bytes // 8))
    found["suspects"] = float(sum(not margin.is_right for margin in fast_check.margins(runs)))
    found["glance_us"] = min(_per_run(lambda: fast_check.margins(runs), runs) for _ in range(3))
    found["zones_us"] = _per_run(lambda: describe_damage(card, scene.operator, runs, SEED), runs)
    content = InputContent(draw="normal", seed=SEED)
    (slot,) = scene.slots(1, order.round.slots[PairSide.PACER][0].end)
    scene.play(native, slot, content)
    examine = scene.order(content, slot)
    found["examine_us"] = min(_per_run(lambda: scene.ask(examine), runs[:1]) for _ in range(2))
    card.free()
    return found


def _per_run(work: Callable[[], object], runs: list[PlanRun]) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return round((time.perf_counter() - started) / len(runs) * 1e6, 1)


def _said(reply: Reply) -> str:
    if isinstance(reply, ExaminedRuns):
        return f"{reply.outcome or 'correct'}: {reply.reason}"
    return reply.model_dump_json()


def _target() -> str:
    query = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader", "-i", "0")
    told = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    return "sm_" + told.strip().replace(".", "")


if __name__ == "__main__":
    main()
