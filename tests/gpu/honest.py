"""Honest kernels, every one of which must be accepted: seeds with rewritings and tunings, styles, a library's.

What our emitters make of a seed is drawn with chance of a fixed seed, so that it is the same on every machine.
"""

import asyncio
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from service.emitters import EmitterTrial, Parent, ProposalContext
from service.emitters.rules import RULES
from service.emitters.tune import Tune
from service.operators.sources import digest
from tests.gpu.contracts import operators
from tests.gpu.liger import liger_kernels
from workers.protocol import Operator

FOLDER = Path(__file__).parent / "kernels"
TARGET = "sm_90"
TUNINGS = 3
"""Of each seed."""
TOO_LARGE = frozenset(
    {
        "argmax/tune/2",
        "attention/rewrite/pipeline_loop",
        "attention/tune/1",
        "decode_attention/tune/1",
        "depthwise_conv_large/tune/0",
        "dora_compose/tune/2",
        "gate_up_swiglu/tune/1",
        "gated_linear_attention/tune/0",
        "gated_linear_attention/tune/1",
        "gated_linear_attention/tune/2",
        "gelu/tune/0",
        "layernorm_backward/tune/0",
        "lightning_attention/rewrite/pipeline_loop",
        "lightning_attention/tune/2",
        "lm_head_sparse/rewrite/pipeline_loop",
        "rational_activation/tune/1",
        "softmax_backward/rewrite/rows_tile",
        "swiglu/tune/0",
    }
)
"""What chance made of a seed that no program has the shared memory for, that Triton or ptxas takes too long over, or
that Triton 3.6 does not compile."""
MISCOMPILED = frozenset({"lightning_attention/tune/0", "ssd_chunk_scan/tune/2", "ssd_chunk_scan/rewrite/pipeline_loop"})
"""What is right as it is written, and as Triton interprets it, and wrong as Triton 3.6 compiles it. With chunks of 256
an H200 gets every chunk but the first of a linear attention wrong in some heads; started by Triton itself, one scan
gives wrong values from 128 steps on, and the other reads beyond its shared memory, as compute-sanitizer says too. That
the judge refuses them is as it should be."""
_OPERATOR = re.compile(r"^operator: (\w+)$", re.MULTILINE)


@dataclass(frozen=True)
class Honest:
    """One honest kernel.

    Attributes:
        name: Unique; says how it came about, such as `rmsnorm/rewrite/persistent`.
        operator: Name of what it computes.
        source: Its text.
    """

    name: str
    operator: str
    source: str


@cache
def honest_kernels() -> dict[str, Honest]:
    """All of them, by name; no two have the same text but for names and comments."""
    found: dict[str, Honest] = {}
    seen: set[str] = set()
    for kernel in (*_seeds(), *_by_hand(), *_rewritten(), *_tuned(), *_from_liger()):
        if digest(kernel.source) not in seen and kernel.name not in TOO_LARGE | MISCOMPILED:
            seen.add(digest(kernel.source))
            found[kernel.name] = kernel
    return found


def authored_kernels() -> dict[str, Honest]:
    """Those that people wrote as they are, by name. Quick: nothing is rewritten and nothing compared."""
    return {kernel.name: kernel for kernel in (*_seeds(), *_by_hand(), *_from_liger())}


def _seeds() -> Iterator[Honest]:
    for name, operator in operators().items():
        for number, seed in enumerate(operator.seeds):
            kind = f"/gluon_{number}" if "@gluon.jit" in seed else f"/{number}" if number else ""
            yield Honest(f"{name}/seed{kind}", name, seed)


def _by_hand() -> Iterator[Honest]:
    for path in sorted(FOLDER.glob("*.py")):
        source = path.read_text()
        said = _OPERATOR.search(source)
        if said is None:
            raise ValueError(f"{path.name} does not say what it computes")
        yield Honest(f"{said[1]}/hand/{path.stem.removeprefix(f'{said[1]}_')}", said[1], source)


def _rewritten() -> Iterator[Honest]:
    """What each rule makes of each seed that it applies to."""
    for name, operator in operators().items():
        for rule in RULES.values():
            source = rule.rewrite(operator.seeds[0], random.Random(f"{name} {rule.name}"))
            if source is not None:
                yield Honest(f"{name}/rewrite/{rule.name}", name, source)


def _tuned() -> Iterator[Honest]:
    for name, operator in operators().items():
        for index, source in enumerate(tunings(operator, operator.seeds[0], TUNINGS, name)):
            yield Honest(f"{name}/tune/{index}", name, source)


def _from_liger() -> Iterator[Honest]:
    for name, source in liger_kernels():
        operator, _, style = name.partition("/")
        yield Honest(f"{operator}/liger/{style or 0}", operator, source)


def tunings(operator: Operator, source: str, count: int, chance: str) -> list[str]:
    """Other values for the parameters of a source, each move new; fewer than `count` where there are no more."""
    rng = random.Random(f"tune {chance}")
    trials: tuple[EmitterTrial, ...] = ()
    found = []
    for _ in range(count):
        parent = Parent("", source)
        proposal = asyncio.run(
            Tune().propose(ProposalContext(operator.model_dump(mode="json"), TARGET, (parent,), trials, rng))
        )
        if proposal is None:
            break
        trials = (EmitterTrial(proposal.note, "correct", 1.0, ()), *trials)
        found.append(proposal.source)
    return found
