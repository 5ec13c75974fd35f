"""Files of a package, rendered from templates around the modules of its elites."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from service.certificates.document import Certificate, sealed
from service.errors import InvalidInput
from service.evaluation.figure_labels import in_words, stamp_of
from service.export.modules import ExportedModule, names_of
from workers.protocol import Operator, ShapeResult, ShapeRole

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Pattern of package names that Python, pip and PyTorch accept."""
WITHOUT_SOURCE = "the source: a candidate's host code is not shipped with a package"
"""Entry in `left_out` of the certificates in a package."""
_TEMPLATES = Environment(
    loader=PackageLoader("service.export"), undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
)  # writes Python and Markdown
_TEMPLATES.filters |= {"literal": repr, "plain": lambda text: plain(text)}


@dataclass(frozen=True)
class PackageParts:
    """Parts of a package.

    Attributes:
        name: Name of the package.
        modules: Modules of elites, by name.
        serving: Names of the modules that compute outputs without gradients.
        training: Names of the modules that compute outputs and gradients.
        refusals: Reasons why other elites were left out.
    """

    name: str
    modules: Mapping[str, ExportedModule]
    serving: tuple[str, ...]
    training: tuple[str, ...]
    refusals: tuple[str, ...]

    @property
    def certificate(self) -> Certificate:
        """Certificate of the first elite; all elites have its operator and device."""
        return self.modules[self.serving[0]].certificate


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
    said = _context(parts)
    written = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "LICENSE.md": "LICENSE.md",
        "benchmark.py": "benchmark.py",
        f"tests/test_{parts.name}.py": "test_package.py",
        f"{parts.name}/__init__.py": "__init__.py",
        f"{parts.name}/operation.py": "operation.py",
        f"{parts.name}/examples.py": "examples.py",
    }
    files = {path: _TEMPLATES.get_template(f"{name}.jinja").render(said) for path, name in written.items()}
    files[f"{parts.name}/reference.py"] = parts.certificate.operator.reference.rstrip("\n") + "\n"
    for name, module in parts.modules.items():
        files[f"{parts.name}/{name}.py"] = module.text
        files[f"{parts.name}/certificates/{name}.json"] = _without_source(module.certificate).text() + "\n"
    return files


def _without_source(certificate: Certificate) -> Certificate:
    changed = {"source": None, "left_out": (*certificate.left_out, WITHOUT_SOURCE)}
    return sealed(certificate.model_copy(update=changed))


def _context(parts: PackageParts) -> dict[str, Any]:
    certificate = parts.certificate
    return {
        "package": parts.name,
        "entry": certificate.operator.entry,
        "target": certificate.device.target,
        "tf32": certificate.operator.precision.allow_tf32,
        "provenance": certificate.provenance.value,
        "admitted": certificate.admitted,
        "figures": in_words(certificate.device.name),
        "triton": certificate.verdict.versions.get("triton", "unknown"),
        "torch": certificate.verdict.versions.get("torch", "unknown"),
        "modules": list(parts.modules),
        "serving": parts.serving,
        "training": parts.training,
        "refusals": parts.refusals,
        "emitters": sorted({plain(module.certificate.origin.emitter) for module in parts.modules.values()}),
        "examples": _examples(parts),
        **_tried(parts),
        "timed": tuple(shape.key for shape in certificate.shapes if shape.role is ShapeRole.BENCHMARK),
        "served": [_served(parts, name, key) for name in parts.serving for key in parts.modules[name].shapes],
        "sections": [_section(name, module) for name, module in parts.modules.items()],
        "unit": f"us, {certificate.provenance.value}",
        **_signature(parts),
        **_spelling(),
    }


def _signature(parts: PackageParts) -> dict[str, Any]:
    """Return the template values of the operator's signature, by its own names and by number."""
    operator = parts.modules[(*parts.training, *parts.serving)[0]].certificate.operator
    names = names_of(operator)
    tensors, scalars = ", ".join(names.inputs), ", ".join(names.scalars)
    defaults = [f"{name}={item.value!r}" for name, item in zip(names.scalars, operator.scalars, strict=True)]
    values = tuple(scalar.value for scalar in operator.scalars)
    return {
        "inputs": len(operator.inputs),
        "outputs": len(operator.outputs),
        "upstream": _positions(operator),
        "differentiated": operator.differentiated,
        "dtypes": [item.dtype for item in operator.inputs],
        "dtype_words": ", ".join(dict.fromkeys(item.dtype for item in operator.inputs)),
        "scalars": values,
        "scalar_words": f", with {scalars} = {', '.join(map(repr, values))}" if scalars else "",
        "typed_scalars": [scalar.dtype for scalar in operator.scalars],
        "signature": ", ".join((*names.inputs, *defaults)),
        "wants": " or ".join(f"{name}.requires_grad" for name in names.inputs),
        "tuples": f"({tensors},), ({scalars}{',' if scalars else ''})",
        "passed": ", ".join((*names.inputs, *names.scalars)),
        "call": ", ".join(names.inputs),
    }


def _positions(operator: Operator) -> tuple[int, ...]:
    """Return the indices of outputs with gradients."""
    wanted = {item.name for item in operator.upstream}
    return tuple(at for at, output in enumerate(operator.outputs) if f"grad_{output.name}" in wanted)


def _spelling() -> dict[str, Any]:
    """Return the functions with which templates write signatures."""

    def names(letter: str, count: int) -> str:
        return ", ".join(f"{letter}{at}" for at in range(count))

    def typed(count: int, scalars: Sequence[str]) -> str:
        tensors = [f"t{at}: torch.Tensor" for at in range(count)]
        return ", ".join([*tensors, *(f"s{at}: {kind}" for at, kind in enumerate(scalars))])

    def returns(count: int) -> str:
        return "torch.Tensor" if count == 1 else f"tuple[{', '.join(['torch.Tensor'] * count)}]"

    return {"names": names, "typed": typed, "returns": returns}


def _tried(parts: PackageParts) -> dict[str, tuple[str, ...]]:
    """Return the shapes at which the package's tests try outputs and gradients; searches may differ in them."""
    verified, trained = (
        tuple(key for name in names for key in parts.modules[name].shapes) for names in (parts.serving, parts.training)
    )
    untrained = tuple(key for key in verified if key not in trained)
    return {"verified": verified, "trained": trained, "untrained": untrained}


def _examples(parts: PackageParts) -> dict[str, list[tuple[object, ...]]]:
    """Return sizes, dtype and bounds of every input, for each shape that a module serves."""
    operator = parts.certificate.operator
    planned = {
        shape.key: shape
        for module in parts.modules.values()
        for shape in module.certificate.shapes
        if shape.key in module.shapes
    }
    return {
        shape.key: [
            (
                operator.input_shape(item, shape.dims),
                item.dtype,
                item.low,
                shape.dims[item.high] if isinstance(item.high, str) else item.high,
            )
            for item in operator.inputs
        ]
        for shape in planned.values()
    }


def _served(parts: PackageParts, name: str, key: str) -> dict[str, str]:
    role = next(shape.role for shape in parts.certificate.shapes if shape.key == key)
    return {"shape": key, "role": role.value.replace("_", "-") + " shape", "module": name}


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
