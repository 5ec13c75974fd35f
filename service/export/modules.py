"""Modules of a package: the device functions of one elite, with host code for the shapes that it serves.

A module has the operator's entry and is itself a candidate, so that the exported code can be traced like any other.
"""

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import dedent

from service.certificates.document import Certificate
from service.errors import InvalidInput
from service.export.extraction import RESERVED, ExtractedFunctions, NotExtractable, lift
from service.export.host_code import HostCodeWriter, TensorNames, functions_in
from workers.protocol import Operator, Plan

PLANS, GRADIENTS = "PLANS", "GRADIENTS"
"""Names of a module's tables of forward and backward functions, by the shapes of the inputs."""
_HOST = re.compile(r"plan_\d+(_gradients)?|b\d+|float|tuple|PLANS|GRADIENTS")
_AROUND = re.compile(
    r"_.*|TRAINING|TARGET|TRITON|DTYPES|SCALARS|warnings|why_not|operation|examples|reference|(elite|training)_\d+"
)
# `_HOST`: names that host code uses besides module names. `_AROUND`: names of the package's operation.


@dataclass(frozen=True)
class ExportedModule:
    """Module of an elite.

    Attributes:
        text: Source text.
        certificate: Certificate of the elite.
        shapes: Keys of the shapes that it serves.
    """

    text: str
    certificate: Certificate
    shapes: tuple[str, ...]


def names_of(operator: Operator) -> TensorNames:
    """Choose the names of tensors and scalars in host code.

    Raises:
        InvalidInput: If the operator's entry has a name that host code needs.
    """
    if _is_ours(operator.entry) or _is_ours(operator.backward_entry):
        raise InvalidInput(f"an entry named '{operator.entry}' cannot be exported: host code needs that name", "SEARCH")
    taken: list[str] = []

    def free(name: str) -> str:
        name = name.lstrip("_") or "tensor"
        while keyword.iskeyword(name) or _is_ours(name) or name in (*taken, operator.entry, operator.backward_entry):
            name += "_"
        taken.append(name)
        return name

    return TensorNames(
        inputs=tuple(free(item.name) for item in operator.inputs),
        upstream=tuple(free(item.name) for item in operator.upstream),
        outputs=tuple(free(item.name) for item in operator.outputs) if operator.backward else (),
        scalars=tuple(free(item.name) for item in operator.scalars),
    )


def key_of(operator: Operator, plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the inputs, the key of a plan in the tables."""
    return tuple(operator.input_shape(item, plan.shape.dims) for item in operator.inputs)


def write_module(certificate: Certificate, shapes: Sequence[str]) -> ExportedModule:
    """Write an elite's module for the shapes with some keys; its certificate needs the source.

    Raises:
        NotExtractable: If the elite cannot be exported; says why.
        InvalidInput: If its operator cannot be exported.
    """
    operator = certificate.operator
    if any(item.mutable for item in operator.inputs):
        raise InvalidInput("an operator that changes its inputs cannot be exported", "SEARCH")
    if certificate.source is None:
        raise NotExtractable("its source is not available")
    plans = [plan for plan in certificate.bundle.plans if plan.shape.key in shapes]
    names = names_of(operator)
    code = lift(certificate.source, sorted(set().union(*(functions_in(plan) for plan in plans))))
    _require_apart(code, operator, names)
    opening = f"{_header(certificate)}\n\n" + "\n".join(code.imports)
    parts = [opening, "\n".join(code.constants), *code.functions.values()]
    plain: list[str] = []
    reverse: list[str] = []
    for at, plan in enumerate(plans):
        host = HostCodeWriter(plan, operator, names, certificate.bundle.kernels, code)
        parts.append(host.forward(f"plan_{at}"))
        plain.append(f"    {key_of(operator, plan)}: plan_{at},")
        if operator.backward:
            parts.append(host.backward(f"plan_{at}_gradients"))
            reverse.append(f"    {key_of(operator, plan)}: plan_{at}_gradients,")
    parts.append(_table(PLANS, plain))
    if operator.backward:
        parts.append(_table(GRADIENTS, reverse))
    parts += _entries(operator, names)
    text = "\n\n\n".join(part for part in parts if part) + "\n"
    return ExportedModule(text, certificate, tuple(plan.shape.key for plan in plans))


def _is_ours(name: str) -> bool:
    return _clashes(name) or _AROUND.fullmatch(name) is not None


def _clashes(name: str) -> bool:
    return name in RESERVED or _HOST.fullmatch(name) is not None


def _require_apart(code: ExtractedFunctions, operator: Operator, names: TensorNames) -> None:
    """Require that device functions and constants have no name that host code uses."""
    tensors = {*names.inputs, *names.upstream, *names.outputs, *names.scalars}
    for name in code.bound:
        if _clashes(name) or name in tensors or name in (operator.entry, operator.backward_entry):
            raise NotExtractable(f"it defines '{name}', which is a name of host code")


def _header(certificate: Certificate) -> str:
    origin = certificate.origin
    return dedent(
        f'''\
        """Kernels of candidate {_id(origin.candidate)}, and the host code of its launch plans.

        Written by Kernelreef; bundle {certificate.bundle_digest}.
        """'''
    )


def _id(text: str) -> str:
    """Remove characters from an untrusted id that could end a string literal."""
    return re.sub(r"[^A-Za-z0-9-]", "", text)


def _table(name: str, rows: Sequence[str]) -> str:
    return "\n".join([f"{name} = {{", *rows, "}"])


def _entries(operator: Operator, names: TensorNames) -> list[str]:
    """Write the entry functions by which the module is traced."""
    key = "".join(f"tuple({name}.shape), " for name in names.inputs).rstrip()
    key = key if len(names.inputs) == 1 else key.rstrip(",")
    forward = f"{PLANS}[{key}]({', '.join(names.inputs)})"
    found = [f"def {operator.entry}({', '.join((*names.inputs, *names.scalars))}):\n    return {forward}"]
    if operator.backward:
        tensors = ", ".join((*names.upstream, *names.inputs, *names.outputs))
        taken = ", ".join((*names.upstream, *names.inputs, *names.outputs, *names.scalars))
        found.append(f"def {operator.backward_entry}({taken}):\n    return {GRADIENTS}[{key}]({tensors})")
    return found
