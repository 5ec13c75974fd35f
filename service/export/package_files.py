"""Files of a package, rendered from templates around the modules of its elites."""

import hashlib
import json
import keyword
import math
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from service.certificates.document import Certificate, sealed
from service.errors import InvalidInput
from service.evaluation.figure_labels import in_words, stamp_of
from service.export.decision_tree import PYTORCH, Leaf, TimedShape, Tree, choose, loss_of
from service.export.host_code import anchor_of
from service.export.modules import ExportedModule, names_of
from service.export.verification import VerifiedModule
from service.operators.example_inputs import ORDERED_VALUES, example_inputs
from workers.protocol import Device, Operator, Shape, ShapeResult, describe_compiler
from workers.protocol.distribution import ORDERED

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Pattern of package names that Python, pip and PyTorch accept."""
TAKEN = frozenset(
    {*sys.stdlib_module_names, *keyword.kwlist, "torch", "triton", "pytest", "vllm", "aten", "prim", "prims"}
)
"""Names of other modules, and of namespaces of operators that are not ours."""
WITHOUT_SOURCE = "the source: a candidate's host code is not shipped with a package"
"""Entry in `left_out` of the certificates in a package."""
DESCRIBING = "make_tensor_descriptor("
"""Call in a kernel's text for which Triton needs scratch memory at each launch."""
_TEMPLATES = Environment(
    loader=PackageLoader("service.export"), undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
)  # writes Python and Markdown
_TEMPLATES.filters |= {"literal": repr, "plain": lambda text: plain(text)}


@dataclass(frozen=True)
class Gradients:
    """Modules that compute outputs and gradients, and the tree that chooses between them."""

    modules: tuple[str, ...]
    tree: Tree
    timed: tuple[TimedShape, ...]


@dataclass(frozen=True)
class ComparedShape:
    """Time of a package at a shape that its search did not time, and that of the best kernel of a search there."""

    shape: str
    own_us: float
    searched_us: float


@dataclass(frozen=True)
class PackageParts:
    """Parts of a package.

    Attributes:
        name: Name of the package.
        modules: Verified modules of elites, by name.
        tree: Choice among those that compute outputs without gradients.
        timed: Shapes that the tree was grown from.
        training: The same for gradients; None without kernels for gradients.
        judged_on: Device that judged the functions.
        refusals: Reasons why elites, functions and plans were left out.
        note: Sentence about what judged the functions, if that was not the elites' own device.
        compared: Times beside those of another search, at its shapes.
        left_out_loss: Loss that is expected at shapes that were not timed, as a factor; None if it is not known.
    """

    name: str
    modules: Mapping[str, VerifiedModule]
    tree: Tree
    timed: tuple[TimedShape, ...]
    training: Gradients | None
    judged_on: Device
    refusals: tuple[str, ...]
    note: str = ""
    compared: tuple[ComparedShape, ...] = ()
    left_out_loss: float | None = None

    @property
    def certificate(self) -> Certificate:
        """Certificate of the first elite; all elites have its operator and device."""
        return next(iter(self.modules.values())).module.certificate

    @property
    def serving(self) -> tuple[str, ...]:
        """Names of the modules that compute outputs without gradients."""
        return tuple(name for name in self.modules if name.startswith("elite"))


def serving_at(tree: Tree, modules: Mapping[str, VerifiedModule], sizes: Mapping[str, int]) -> str | None:
    """Return the name of the module that serves some sizes; None if PyTorch does."""
    for name in choose(tree, sizes):
        if name == PYTORCH:
            return None
        if modules[name].module.function_for(sizes) is not None:
            return name
    return None


def plain(text: str) -> str:
    """Replace characters of untrusted text that could be markup."""
    return re.sub(r"[^A-Za-z0-9 .,:;_+()/=%'~-]", "?", text)


def render(parts: PackageParts) -> dict[str, str]:
    """Render a package.

    Returns:
        Its files, by path.

    Raises:
        InvalidInput: If its name is not a package name.
    """
    if not NAME.fullmatch(parts.name):
        raise InvalidInput(f"'{parts.name}' is not a package name: use lower-case letters, digits and _", "--name")
    if parts.name in TAKEN:
        raise InvalidInput(f"'{parts.name}' is not a package name: Python or PyTorch uses it", "--name")
    said = _context(parts)
    written = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "LICENSE.md": "LICENSE.md",
        "benchmark.py": "benchmark.py",
        f"tests/test_{parts.name}.py": "test_package.py",
        f"{parts.name}/__init__.py": "__init__.py",
        f"{parts.name}/operation.py": "operation.py",
        f"{parts.name}/elsewhere.py": "elsewhere.py",
        f"{parts.name}/examples.py": "examples.py",
    }
    files = {path: _TEMPLATES.get_template(f"{name}.jinja").render(said) for path, name in written.items()}
    files[f"{parts.name}/reference.py"] = parts.certificate.operator.reference.rstrip("\n") + "\n"
    for name, module in parts.modules.items():
        files[f"{parts.name}/{name}.py"] = module.module.text
        folder = f"{parts.name}/certificates"
        files[f"{folder}/{name}.json"] = _without_source(module.module.certificate).text() + "\n"
        files[f"{folder}/{name}_functions.json"] = _verdicts(module)
    return {**files, f"{parts.name}/metadata.json": _build_variant(parts.name, files)}


def _build_variant(name: str, files: Mapping[str, str]) -> str:
    """Return the metadata that makes the package's folder a build variant of Hugging Face `kernels`.

    The id is the name of the module when that loads it, so it differs between packages of one name.
    """
    content = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    told = {"id": f"{name}_{content[:12]}", "name": name.replace("_", "-"), "version": 1, "license": "other"}
    return json.dumps({**told, "backend": {"type": "cuda"}, "python-depends": []}, indent=1) + "\n"


def _verdicts(module: VerifiedModule) -> str:
    """Return the verdict on each function of a module as JSON."""
    told = [
        {
            "function": f"plan_{at}",
            "divisible_by_16": sorted(f"{name} of launch {launch}" for launch, name in each.function.assumed),
            "ones": sorted(f"{name} of launch {launch}" for launch, name in each.function.ones),
            "plan": each.function.plan.plain(),
            "kernels": each.kernels,
            "shapes": each.shapes,
            "report": each.report.plain(),
            "further": [report.plain() for report in each.further],
        }
        for at, each in enumerate(module.verdicts)
    ]
    return json.dumps(told, indent=1) + "\n"


def _without_source(certificate: Certificate) -> Certificate:
    changed = {"source": None, "left_out": (*certificate.left_out, WITHOUT_SOURCE)}
    return sealed(certificate.model_copy(update=changed))


def _context(parts: PackageParts) -> dict[str, Any]:
    certificate = parts.certificate
    modules = {name: each.module for name, each in parts.modules.items()}
    return {
        "package": parts.name,
        "entry": certificate.operator.entry,
        "target": certificate.device.target,
        "device": certificate.device.name,
        "tf32": certificate.operator.precision.allow_tf32,
        "provenance": certificate.provenance.value,
        "admitted": certificate.admitted,
        "figures": in_words(certificate.device.name),
        "triton": certificate.verdict.versions.get("triton", "unknown"),
        "torch": certificate.verdict.versions.get("torch", "unknown"),
        "modules": list(parts.modules),
        "scratch": any(DESCRIBING in each.text for each in modules.values()),
        "functions": {name: len(each.functions) for name, each in modules.items()},
        "kernels": len({kernel for each in parts.modules.values() for kernel in each.kernels}),
        "serving": parts.serving,
        "training": parts.training.modules if parts.training else (),
        "tree": _tree(parts.tree, parts),
        "training_tree": _tree(parts.training.tree, parts) if parts.training else "",
        "refusals": parts.refusals,
        "emitters": sorted({plain(module.certificate.origin.emitter) for module in modules.values()}),
        "judged_on": parts.judged_on.name,
        "note": parts.note,
        "ranges": _ranges(certificate.operator),
        "range_words": "; ".join(
            f"{name} {_in_words(sizes)}"
            for name, sizes in _ranges(certificate.operator)
            if name not in certificate.operator.presences
        ),
        "times": [_times(parts, shape) for shape in parts.timed],
        "unsearched": _unsearched(parts),
        "compared": [(each.shape, f"{each.own_us:.2f}", f"{each.searched_us:.2f}") for each in parts.compared],
        "compared_loss": _loss(parts.compared),
        "is_timed": parts.judged_on.measures,
        "loss": f"{100 * (loss_of(parts.tree, parts.timed) - 1):.1f} %",
        "left_out_loss": "" if parts.left_out_loss is None else f"{100 * (parts.left_out_loss - 1):.1f} %",
        "sections": [_section(name, each) for name, each in modules.items()],
        "unit": f"us, {certificate.provenance.value}",
        "unit_here": f"us, {'measured' if parts.judged_on.measures else 'predicted'}",
        **_examples(parts),
        **_signature(parts),
        **_spelling(),
    }


def _unsearched(parts: PackageParts) -> dict[str, tuple[int, int]]:
    """Return at how many shapes that no search judged a card judged each module, and at how many it was right."""
    found = {}
    for name, each in parts.modules.items() if parts.judged_on.measures else ():
        known = {shape.key for shape in each.module.certificate.shapes}
        right = {key for verdict in each.verdicts for key in verdict.shapes} - known
        found[name] = (len(right | (set(each.wrong) - known)), len(right))
    return found


def _loss(compared: Sequence[ComparedShape]) -> str:
    """Return the geometric-mean loss against searches at some shapes; empty without any."""
    logs = [math.log(each.own_us / each.searched_us) for each in compared]
    return f"{100 * (math.exp(statistics.mean(logs)) - 1):.1f} %" if logs else ""


def _ranges(operator: Operator) -> tuple[tuple[str, range | tuple[int, ...]], ...]:
    """Return the sizes that each dimension may have, in the order of the operator: a range, or those of its shapes."""
    found: list[tuple[str, range | tuple[int, ...]]] = []
    for name in operator.dimensions:
        known = (0, 1) if name in operator.presences else tuple(sorted({each.dims[name] for each in operator.shapes}))
        low, high = operator.ranges.get(name, (0, 0))
        found.append((name, range(low, high + 1) if name in operator.ranges else known))
    return tuple(found)


def _in_words(sizes: range | tuple[int, ...]) -> str:
    return f"from {sizes[0]} to {sizes[-1]}" if isinstance(sizes, range) else " or ".join(map(str, sizes))


def _tree(tree: Tree, parts: PackageParts, depth: int = 1) -> str:
    """Write a decision tree as the body of a function of sizes."""
    indent = "    " * depth
    if isinstance(tree, Leaf):
        order = tree.order[: tree.order.index(PYTORCH)] if PYTORCH in tree.order else tree.order
        return f"{indent}return ({''.join(f'{name}, ' for name in order).rstrip()})"
    names = names_of(parts.certificate.operator).sizes
    asked = " * ".join(names[size] for size in tree.feature.sizes)
    limit = f"<= {tree.limit}"
    if tree.feature.modulo:
        asked, limit = f"{asked} % {tree.feature.modulo}", limit if tree.limit else "== 0"
    below, above = _tree(tree.below, parts, depth + 1), _tree(tree.above, parts, depth)
    return f"{indent}if {asked} {limit}:\n{below}\n{above}"


def _times(parts: PackageParts, shape: TimedShape) -> dict[str, str]:
    """Return a row of the table of timed shapes."""
    name = serving_at(parts.tree, parts.modules, shape.sizes)
    told = {each: f"{time_us:.2f}" for each, time_us in shape.times.items()}
    return {
        "shape": Shape(dims=dict(shape.sizes)).key,
        "served": f"`{name}`" if name else "PyTorch",
        "kernel": told.get(name or "", ""),
        "pytorch": told.get(PYTORCH, ""),
        "searched": "yes" if any(dict(shape.sizes) == each.dims for each in parts.certificate.operator.shapes) else "",
    }


def _signature(parts: PackageParts) -> dict[str, Any]:
    """Return the template values of the operator's signature, by its own names and by number."""
    names_with = (*(parts.training.modules if parts.training else ()), *parts.serving)
    operator = parts.modules[names_with[0]].module.certificate.operator
    names = names_of(operator)
    tensors, scalars = ", ".join(names.inputs), ", ".join(names.scalars)
    values = tuple(None if isinstance(scalar.value, str) else scalar.value for scalar in operator.scalars)
    last = max((at for at, value in enumerate(values) if value is None), default=-1)
    optional = {name for name, item in zip(names.inputs, operator.inputs, strict=True) if item.optional}
    required = [name for name in names.inputs if name not in optional]
    told = dict.fromkeys(optional, "None") | dict(zip(names.scalars, map(repr, values), strict=True))
    order = (*names.inputs, *names.scalars)
    without = max(at for at, name in enumerate(order) if name in required or name in names.scalars[: last + 1])
    defaults = [f"{name}={told[name]}" if at > without else name for at, name in enumerate(order)]
    fixed = [f"{name} = {value!r}" for name, value in zip(names.scalars, values, strict=True) if value is not None]
    return {
        "inputs": len(operator.inputs),
        "outputs": len(operator.outputs),
        "upstream": _positions(operator),
        "differentiated": operator.differentiated,
        "dtypes": [item.dtype for item in operator.inputs],
        "dtype_words": ", ".join(dict.fromkeys(item.dtype for item in operator.inputs)),
        "scalars": values,
        "scalar_words": f", with {', '.join(fixed)}" if fixed else "",
        "typed_scalars": [scalar.dtype for scalar in operator.scalars],
        "signature": ", ".join(defaults),
        "optional": tuple(at for at, name in enumerate(names.inputs) if name in optional),
        "optional_words": ", ".join(sorted(optional)),
        "anchor": anchor_of(operator),
        "anchor_name": names.inputs[anchor_of(operator)],
        "watched": ", ".join(
            f"{required[0]} if {name} is None else {name}" if name in optional else name for name in names.inputs
        ),
        "sizes": ", ".join(names.sizes.values()),
        "size_names": tuple(names.sizes),
        "input_names": tuple(item.name for item in operator.inputs),
        "wants": " or ".join(
            f"({name} is not None and {name}.requires_grad)" if name in optional else f"{name}.requires_grad"
            for name in names.inputs
        ),
        "tensors": tensors,
        "tuples": f"({tensors},), ({scalars}{',' if scalars else ''})",
        "passed": ", ".join((*names.inputs, *names.scalars)),
        "call": ", ".join((*names.inputs, *(names.scalars[: last + 1]))),
    }


def _positions(operator: Operator) -> tuple[int, ...]:
    """Return the indices of outputs with gradients."""
    wanted = {item.name for item in operator.upstream}
    return tuple(at for at, output in enumerate(operator.outputs) if f"grad_{output.name}" in wanted)


def _spelling() -> dict[str, Any]:
    """Return the functions with which templates write signatures."""

    def names(letter: str, count: int) -> str:
        return ", ".join(f"{letter}{at}" for at in range(count))

    def typed(count: int, scalars: Sequence[str], optional: Sequence[int] = ()) -> str:
        tensors = [f"t{at}: {'Optional[torch.Tensor]' if at in optional else 'torch.Tensor'}" for at in range(count)]
        return ", ".join([*tensors, *(f"s{at}: {kind}" for at, kind in enumerate(scalars))])

    def returns(count: int) -> str:
        return "torch.Tensor" if count == 1 else f"tuple[{', '.join(['torch.Tensor'] * count)}]"

    return {"names": names, "typed": typed, "returns": returns}


def _examples(parts: PackageParts) -> dict[str, Any]:
    """Return the shapes of the package's tests, and sizes, dtype and bounds of every input at each."""
    operator = parts.certificate.operator
    judged: dict[str, Shape] = {}
    for shape in (*parts.certificate.shapes, *(Shape(dims=dict(each.sizes)) for each in parts.timed)):
        judged.setdefault(shape.key, shape)
    trained = parts.training.tree if parts.training else Leaf(())
    served = {key for key, shape in judged.items() if serving_at(parts.tree, parts.modules, shape.dims)}
    with_gradients = {key for key, shape in judged.items() if serving_at(trained, parts.modules, shape.dims)}
    searched = {shape.key for shape in (Shape(dims=each.dims) for each in operator.shapes)}
    return {
        "examples": {
            key: example_inputs(operator, shape.dims)[: len(operator.inputs)] for key, shape in judged.items()
        },
        "ordered": ORDERED_VALUES if any(item.distribution in ORDERED for item in operator.inputs) else "",
        "dimensions": (
            tuple(item.shape for item in operator.inputs),
            tuple(item.high if isinstance(item.high, str) else None for item in operator.inputs),
        ),
        "sized_scalars": tuple(each.value if isinstance(each.value, str) else None for each in operator.scalars),
        "example_scalars": {key: tuple(operator.scalar_values(shape.dims)) for key, shape in judged.items()},
        "verified": tuple(key for key in judged if key in served),
        "trained": tuple(key for key in judged if key in with_gradients),
        "untrained": tuple(key for key in judged if key in served and key not in with_gradients),
        "timed": tuple(key for key in judged if key in searched),
    }


def _section(name: str, module: ExportedModule) -> dict[str, Any]:
    said = module.certificate
    reasons = f", because {'; '.join(said.trust_reasons)}" if said.trust_reasons else ""
    trust = f"Trust {said.trust.value}{reasons}." if said.trust else "No trust label."
    return {
        "module": name,
        "candidate": plain(said.origin.candidate),
        "bundle": said.bundle_digest,
        "trust": plain(trust),
        "finalist": stamp_of(said.examination).standing,
        "versions": ", ".join(f"{tool} {version}" for tool, version in sorted(said.verdict.versions.items())),
        "compiler": describe_compiler(said.verdict.versions) or "an unknown compiler",
        "relative_to": said.relative_to,
        "speedup": _interval(said.speedup.low, said.speedup.mid, said.speedup.high) if said.speedup else "unknown",
        "rows": [_row(result) for result in said.verdict.shapes if result.mid_us is not None],
        "open_barriers": any(item.readings and item.readings.open_barriers for item in said.verdict.shapes),
    }


def _row(result: ShapeResult) -> dict[str, str]:
    beside = {"pacer": result.pacer_us, **result.baselines_us}
    known = [f"{plain(name)} {time_us:.2f}" for name, time_us in beside.items() if time_us is not None]
    low_us, high_us = result.low_us, result.high_us
    spread = "" if low_us is None or high_us is None or low_us == high_us else f"{low_us:.2f} to {high_us:.2f}"
    return {
        "shape": plain(result.shape),
        "middle": f"{result.mid_us or 0.0:.2f}",
        "interval": spread,
        "beside": ", ".join(known),
    }


def _interval(low: float, mid: float, high: float) -> str:
    return f"{mid:.3f}x" if low == high else f"{mid:.3f}x ({low:.3f} to {high:.3f})"
