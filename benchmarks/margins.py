"""Margins of right answers: how far they stay from a refusal, by operator, over many fresh draws.

Right answers differ from the reference in the order of sums and in the way products are computed, as kernels do. Each
is checked as a candidate is, on fresh content; what refuses it was luck. Wrong answers are checked in the same way, so
that both rates come from one experiment. Every operator adds a row to a file as soon as it is done; a run that was cut
goes on behind the last one. `--publish` writes the rows of a file to `results/margins.json`.

python -m benchmarks.margins FILE [--draws N] [--wrong N] [--seed SEED] [OPERATOR...]
python -m benchmarks.margins FILE --publish

Machine and versions of the result are those of the first line of the file: it may come from another machine.
"""

import argparse
import json
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import torch

from benchmarks.margins_kinds import KINDS, WHOLE, Step
from benchmarks.margins_operators import ORDINARY
from benchmarks.record import machine, versions, write
from service.operators.catalogue import load_catalogue
from service.operators.shapes import all_shapes
from workers.checks import CHECKS
from workers.inputs import DRAWS as NAMED
from workers.inputs import PLANTED, draw
from workers.mutation_testing.answers import honest_graphs
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.cases import MutationCase
from workers.mutation_testing.formulas import written_out
from workers.protocol import DtypeRef, Graph, InputRef, Node, NodeRef, Operator, Shape, TraceJob
from workers.protocol.base import NON_FINITE
from workers.reference import call_of, evaluate, is_product
from workers.tracer.reference import export

DRAWS = tuple(name for name in NAMED if name not in PLANTED)
"""Draws of finite values, in turn; NaN and infinities leave no room for luck."""
DRAW_COUNT = 1000
WRONG_COUNT = 200
"""Draws of wrong answers."""
MEASURED = ("error_ratio", "bias")
"""Checks whose margins are kept: the border is 1."""
ELEMENTS = 2**14
"""Maximum elements of inputs and outputs of a catalogue operator's shape: a draw then takes milliseconds."""
PARTS = 4
"""Parts of a row in an online softmax, and of the channels in a convolution."""
LOW_BITS = ~0x1FFF
"""Bits of a float32 that TF32 keeps."""
_HALF = -0x10000
# Bits of a float32 that bfloat16 keeps.

Tensors: TypeAlias = tuple[torch.Tensor, ...]
Answer: TypeAlias = Callable[[Graph, Tensors], Tensors]
Factor: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


def computed(graph: Graph, inputs: Sequence[torch.Tensor], step: Step) -> Tensors:
    """Evaluate a reference in its own dtypes, node by node, with some nodes computed in another way."""
    values: list[Any] = []

    def resolve(value: object) -> Any:
        match value:
            case NodeRef(node=node, result=result):
                return values[node] if result is None else values[node][result]
            case InputRef():
                return inputs[value.input]
            case DtypeRef():
                return getattr(torch, value.dtype)
            case tuple() | list():
                return [resolve(item) for item in value]
            case str():
                return NON_FINITE.get(value, value)
        return value

    for node in graph.nodes:
        operation, args, kwargs = call_of(node, resolve, inputs[0].device)
        found = step(node, args, kwargs)
        values.append(operation(*args, **kwargs) if found is None else found)
    return tuple(resolve(output) for output in graph.outputs)


def _as_usual(node: Node, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Leave every node as it is."""


def truncated(values: torch.Tensor) -> torch.Tensor:
    """Cut float32 values after the 10 bits of TF32's mantissa, as matrix units do."""
    return (values.contiguous().view(torch.int32) & LOW_BITS).view(torch.float32)


def rounded(values: torch.Tensor) -> torch.Tensor:
    """Round float32 values to TF32, to nearest, ties away from zero."""
    return ((values.contiguous().view(torch.int32) + 0x1000) & LOW_BITS).view(torch.float32)


def _factors(node: Node) -> tuple[int, int]:
    """Return which arguments of a product are its factors."""
    return (1, 2) if node.name in ("addmm", "baddbmm") else (0, 1)


def _product(node: Node, args: list[Any], kwargs: dict[str, Any], left: torch.Tensor, right: torch.Tensor) -> Any:
    """Return the product of other factors, without what is added to it."""
    operation = getattr(getattr(torch.ops.aten, node.name), node.op.split(".")[2])
    mine = list(args)
    first, second = _factors(node)
    mine[first], mine[second] = left, right
    if node.name == "convolution":
        mine[2] = None
    elif first:
        mine[0] = torch.zeros_like(args[0])
    return operation(*mine, **kwargs)


def _with_addend(node: Node, args: list[Any], kwargs: dict[str, Any], product: torch.Tensor) -> torch.Tensor:
    if node.name == "convolution":
        bias = args[2]
        return product if bias is None else product + bias.reshape(-1, *(1 for _ in product.shape[2:]))
    return product + args[0] * kwargs.get("beta", 1) if _factors(node)[0] else product


def products_with(first: Factor, second: Factor) -> Step:
    """Return how float32 products are computed from changed factors."""

    def step(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        left, right = (args[number] for number in _factors(node)) if is_product(node) else (None, None)
        if left is None or left.dtype != torch.float32:
            return None
        return _with_addend(node, args, kwargs, _product(node, args, kwargs, first(left), second(right)))

    return step


def as_they_are(values: torch.Tensor) -> torch.Tensor:
    """Return the values."""
    return values


def to_bfloat16(values: torch.Tensor) -> torch.Tensor:
    """Round to bfloat16, to nearest."""
    return values.bfloat16().float()


def cut_to_bfloat16(values: torch.Tensor) -> torch.Tensor:
    """Cut after the 7 bits of bfloat16's mantissa."""
    return (values.contiguous().view(torch.int32) & _HALF).view(torch.float32)


COARSE_RIGHT: dict[str, tuple[Factor, Factor]] = {
    "factors cut to TF32": (truncated, truncated),
    "factors rounded to TF32": (rounded, rounded),
    "one factor cut, one rounded": (truncated, rounded),
    "one factor cut": (as_they_are, truncated),
}
"""Factors of right products where TF32 is allowed."""
COARSE_WRONG: dict[str, tuple[Factor, Factor]] = {
    "factors rounded to bfloat16": (to_bfloat16, to_bfloat16),
    "factors cut to bfloat16": (cut_to_bfloat16, cut_to_bfloat16),
    "one factor rounded to bfloat16": (to_bfloat16, as_they_are),
}
"""Factors that are coarser than TF32."""


def products_of(kind: str) -> Step:
    """Return how float32 products are computed from parts of their factors: `tf32x3` or `bf16x3`."""

    def split(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if kind == "bf16x3":
            high = values.bfloat16().float()
            return high, (values - high).bfloat16().float()
        high = rounded(values)
        return high, truncated(values - high)

    def step(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not is_product(node):
            return None
        left, right = (args[number] for number in _factors(node))
        if left.dtype != torch.float32:
            return None
        (one, small), (other, little) = split(left), split(right)
        pairs = ((small, other), (one, little), (one, other))
        parts = [_product(node, args, kwargs, *pair) for pair in pairs]
        return _with_addend(node, args, kwargs, parts[0] + parts[1] + parts[2])

    return step


def in_channels(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Add a convolution up in parts of its channels; other nodes stay."""
    if node.name != "convolution" or args[8] != 1 or args[6] or args[0].shape[1] < 2:
        return None
    pairs = zip(args[0].chunk(PARTS, 1), args[1].chunk(PARTS, 1), strict=True)
    parts = [_product(node, args, kwargs, *pair) for pair in pairs]
    return _with_addend(node, args, kwargs, sum(parts[1:], parts[0]))


def online(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Compute a softmax in one pass over parts of its rows, each of which may raise the maximum."""
    if node.name not in ("_softmax", "_safe_softmax", "logsumexp", "_log_softmax"):
        return None
    values, axis = args[0].float(), args[1][0] if isinstance(args[1], list) else args[1]
    most = torch.full_like(values.select(axis, 0).unsqueeze(axis), float("-inf"))
    total = torch.zeros_like(most)
    for part in values.chunk(PARTS, axis):
        found = torch.maximum(most, part.amax(axis, keepdim=True))
        shift = torch.where(found.isinf(), 0.0, found)
        total = total * torch.exp(most - shift) + torch.exp(part - shift).sum(axis, keepdim=True)
        most = found
    if node.name == "logsumexp":
        result = most + torch.log(total)
        return result if len(args) > 2 and args[2] else result.squeeze(axis)
    if node.name == "_log_softmax":
        return (values - most - torch.log(total)).to(args[0].dtype)
    return (torch.exp(values - torch.where(most.isinf(), 0.0, most)) / total).to(args[0].dtype)


def right_answers(fixture: TypedGraph, inputs: Tensors, *, tf32: bool = False) -> dict[str, Answer]:
    """Return right answers by name; those that are equal to the reference's own are left out.

    Args:
        fixture: The reference.
        inputs: Its inputs.
        tf32: True if products may be TF32.
    """
    found: dict[str, Answer] = {"native": lambda graph, given: evaluate(graph, given, double=False)}
    formulas = TypedGraph.of(written_out(fixture), inputs)
    for name, other in honest_graphs(fixture, formulas).items():
        found[name] = lambda graph, given, other=other: evaluate(other, given, double=False)
    steps: dict[str, Step] = {"online softmax": online, "channels in parts": in_channels}
    steps["tf32x3"] = products_of("tf32x3")
    if tf32:
        steps |= {name: products_with(*pair) for name, pair in COARSE_RIGHT.items()}
    native = found["native"](fixture.graph, inputs)
    plain = computed(formulas.graph, inputs, _as_usual)
    for name, make in KINDS.items():
        if any(not torch.equal(a, b) for a, b in zip(computed(formulas.graph, inputs, make()), plain, strict=True)):
            found[name] = lambda _, given, make=make: computed(formulas.graph, given, make())
    steps |= WHOLE
    for name, step in steps.items():
        if any(not torch.equal(a, b) for a, b in zip(computed(fixture.graph, inputs, step), native, strict=True)):
            found[name] = lambda graph, given, step=step: computed(graph, given, step)
    return found


def scaled(factor: float) -> Answer:
    """Return the right answer times a factor: a bias alone."""
    return lambda graph, given: tuple(
        (value * factor).to(right.dtype) if right.is_floating_point() else right
        for value, right in zip(evaluate(graph, given, double=True), evaluate(graph, given, double=False), strict=True)
    )


def leaning_by_content(size: float) -> Answer:
    """Return the right answer, too large or too small by a share: which of both, the content decides."""

    def answer(graph: Graph, given: Tensors) -> Tensors:
        odd = sum(int(tensor.double().abs().sum().view(torch.int64)) for tensor in given) % 2
        return scaled(1 + size if odd else 1 - size)(graph, given)

    return answer


def cut_off(graph: Graph, given: Tensors) -> Tensors:
    """Return the right answer, cut off instead of rounded to the outputs' dtypes."""
    found = []
    rights = evaluate(graph, given, double=False)
    for value, right in zip(evaluate(graph, given, double=True), rights, strict=True):
        if not right.is_floating_point():
            found.append(right)
            continue
        nearest = value.to(right.dtype)
        below = torch.nextafter(nearest.float(), torch.zeros(())).to(torch.float32)
        step = 2 ** (24 - round(-torch.log2(torch.tensor(torch.finfo(right.dtype).eps)).item()) - 1)
        if right.dtype != torch.float32:
            bits = nearest.float().view(torch.int32) - step
            below = bits.view(torch.float32)
        too_far = nearest.double().abs() > value.abs()
        found.append(torch.where(too_far & (nearest != 0), below, nearest.float()).to(right.dtype))
    return tuple(found)


def one_row_wrong(graph: Graph, given: Tensors) -> Tensors:
    """Return the native answer with one row too large by a hundredth."""
    found = tuple(value.clone() for value in evaluate(graph, given, double=False))
    for value in found:
        if value.is_floating_point() and value.dim():
            value[value.shape[0] // 2] *= 1.01
    return found


def narrowed(graph: Graph, given: Tensors) -> Tensors:
    """Return the native answer, with float32 results rounded to bfloat16."""
    found = evaluate(graph, given, double=False)
    return tuple(to_bfloat16(value) if value.dtype == torch.float32 else value for value in found)


def coarse_answers(fixture: TypedGraph, inputs: Tensors) -> dict[str, Answer]:
    """Return answers by name that are too coarse even where TF32 is allowed."""
    found: dict[str, Answer] = {"results rounded to bfloat16": narrowed}
    for name, pair in COARSE_WRONG.items():
        step = products_with(*pair)
        found[name] = lambda graph, given, step=step: computed(graph, given, step)
    return found


def wrong_answers(fixture: TypedGraph, inputs: Tensors) -> dict[str, Answer]:
    """Return wrong answers by name."""
    steps = {
        "products in TF32": products_with(truncated, truncated),
        "products of two bfloat16 parts": products_of("bf16x3"),
        "sums in bfloat16": lambda node, args, kwargs: _narrow(node, args, kwargs),
        "epsilon left out": lambda node, args, kwargs: _without_epsilon(node, args, kwargs),
        "last terms left out": lambda node, args, kwargs: _without_tail(node, args, kwargs),
    }
    native = evaluate(fixture.graph, inputs, double=False)
    found: dict[str, Answer] = {}
    for name, step in steps.items():
        if any(not torch.equal(a, b) for a, b in zip(computed(fixture.graph, inputs, step), native, strict=True)):
            found[name] = lambda graph, given, step=step: computed(graph, given, step)
    half = native[0].is_floating_point() and native[0].dtype.itemsize < 4
    for size in (2e-3, 1e-3) if half else (1e-4, 1e-5, 3e-6, 1e-6):
        found[f"too large by {size:g}"] = scaled(1 + size)
        found[f"off by {size:g}, up or down by content"] = leaning_by_content(size)
    return {**found, "cut off instead of rounded": cut_off, "one row too large by 1 %": one_row_wrong}


def _narrow(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Add float32 sums and matrix products up in bfloat16, in parts."""
    if node.name in ("mm", "bmm") and args[0].dtype == torch.float32:
        pairs = zip(args[0].chunk(PARTS, -1), args[1].chunk(PARTS, -2), strict=True)
        parts = [torch.matmul(*pair).bfloat16() for pair in pairs]
        return sum(parts[1:], parts[0]).float()
    if node.name in ("sum", "mean") and args[0].dtype == torch.float32 and len(args) > 1 and args[1]:
        axis = args[1][-1]
        operation = torch.ops.aten.sum.dim_IntList
        parts = [operation(part, *args[1:]).bfloat16() for part in args[0].chunk(PARTS, axis)]
        total = sum(parts[1:], parts[0]).float()
        return total / prod(args[0].shape[each] for each in args[1]) if node.name == "mean" else total
    return None


def _without_epsilon(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if node.name == "add" and isinstance(args[1], float) and 0 < args[1] < 1e-2:
        return args[0].clone()
    return None


def _without_tail(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Leave the last fortieth of a sum out."""
    if node.name in ("sum", "mean") and args[0].is_floating_point() and len(args) > 1 and args[1]:
        rest = args[0].clone()
        size = rest.shape[args[1][-1]]
        rest.narrow(args[1][-1], size - max(1, size // 40), max(1, size // 40)).zero_()
        return getattr(getattr(torch.ops.aten, node.name), node.op.split(".")[2])(rest, *args[1:], **kwargs)
    if node.name in ("mm", "bmm"):
        rest = args[0].clone()
        rest[..., -max(1, rest.shape[-1] // 40) :] = 0
        return getattr(getattr(torch.ops.aten, node.name), node.op.split(".")[2])(rest, args[1])
    return None


def fixtures(names: Sequence[str]) -> Iterator[tuple[Operator, Shape]]:
    """Yield the ordinary operators and the catalogue, each with one small shape."""
    for name, spec in ORDINARY.items():
        if not names or name in names:
            yield spec, Shape(dims=spec.shapes[0].dims)
    for name, spec in load_catalogue().items():
        small = [shape for shape in all_shapes(spec, 0) if _elements(spec, shape) <= ELEMENTS]
        if small and (not names or f"catalogue_{name}" in names):
            yield (
                spec.model_copy(update={"name": f"catalogue_{name}"}),
                max(small, key=lambda shape: _elements(spec, shape)),
            )


def _elements(spec: Operator, shape: Shape) -> int:
    return sum(prod(spec.input_shape(item, shape.dims)) for item in spec.given)


def graph_of(spec: Operator, shape: Shape) -> Graph:
    """Export the reference at a shape."""
    job = TraceJob(id="margins", search="margins", operator=spec, shapes=(shape,), target="sm_90")
    return Graph.model_validate(json.loads(export(job.model_dump_json().encode()))["graphs"][0])


def _answered(answer: Answer, case: MutationCase) -> Tensors:
    return answer(case.graph, case.inputs)


class Tally:
    """Verdicts on one answer: by a single draw, as decided, and how near it came to a refusal."""

    def __init__(self) -> None:
        self.draws = 0
        self.single, self.decided = Counter[str](), Counter[str]()
        self.measures: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, case: MutationCase, answer: Answer) -> None:
        """Check an answer to one case."""
        outputs = answer(case.graph, case.inputs)
        evidence = case.evidence(outputs)
        self.draws += 1
        for name, check in CHECKS.items():
            finding = check.examine(evidence)
            if name in MEASURED:
                self.measures[name].append(finding.worst)
            if finding.outcome is None:
                continue
            self.single[f"{name} on {case.draw}"] += 1
            if not check.pooled or case.judge(outputs, partial(_answered, answer)) is not None:
                self.decided[f"{name} on {case.draw}"] += 1
            return

    def shown(self) -> dict[str, Any]:
        """Return the row."""
        worst = {f"most_{name}": round(max(values), 4) for name, values in self.measures.items()}
        ranked = {name: sorted(values) for name, values in self.measures.items()}
        usual = {f"median_{name}": round(values[len(values) // 2], 4) for name, values in ranked.items()}
        rates = {"refused_by_one_draw": dict(self.single), "refused": dict(self.decided)}
        return {"draws": self.draws, **usual, **worst, **rates}


def row(spec: Operator, shape: Shape, draws: int, wrong_draws: int, seed: str) -> dict[str, Any]:
    """Try an operator's right and wrong answers on fresh draws."""
    started = time.process_time()
    graph = graph_of(spec, shape)
    inputs = draw(spec, shape, DRAWS[0], 0)
    fixture = TypedGraph.of(graph, inputs)
    tf32 = spec.precision.allow_tf32 is True
    right = right_answers(fixture, inputs, tf32=tf32)
    wrong = (coarse_answers if tf32 else wrong_answers)(fixture, inputs)
    tallies = {name: Tally() for name in (*right, *wrong)}
    for number in range(draws):
        case = MutationCase.of(spec, graph, DRAWS[number % len(DRAWS)], f"{seed}:{number}")
        for name, answer in (right | (wrong if number < wrong_draws else {})).items():
            tallies[name].add(case, answer)
    return {
        "operator": spec.name,
        "shape": shape.key,
        "dtype": spec.results[0].dtype,
        "right": {name: tallies[name].shown() for name in right},
        "wrong": {name: tallies[name].shown() for name in wrong if wrong_draws},
        "processor_s": round(time.process_time() - started, 1),
    }


def main() -> None:
    """Append a row per operator to a file, and go on behind the last one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--draws", type=int, default=DRAW_COUNT)
    parser.add_argument("--wrong", type=int, default=WRONG_COUNT)
    parser.add_argument("--seed", default="", help="the source of all draws, to repeat them; secret if empty")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    known = [json.loads(line) for line in options.file.read_text().splitlines()] if options.file.exists() else []
    if options.publish:
        ran = {name: known[0][name] for name in ("machine", "versions")}
        print(write("margins", [each for each in known if "operator" in each], **ran, kinds=DRAWS))
        return
    done = {each["operator"] for each in known if "operator" in each}
    with options.file.open("a") as file:
        if not known:
            file.write(json.dumps({"machine": machine(), "versions": versions(), "draws": options.draws}) + "\n")
        for spec, shape in fixtures(options.operators):
            if spec.name in done:
                continue
            found = row(spec, shape, options.draws, options.wrong, options.seed or secrets.token_hex(16))
            file.write(json.dumps(found) + "\n")
            file.flush()
            for kind in ("right", "wrong"):
                print(spec.name, kind, {name: each["refused"] for name, each in found[kind].items()}, flush=True)


if __name__ == "__main__":
    main()
