"""Modules of a package: the device functions of one elite, with host code for the shapes that it serves.

A module has the operator's entry and is itself a candidate, so that the exported code can be traced and judged like
any other.
"""

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent

from service.certificates.document import Certificate
from service.errors import InvalidInput
from service.export.extraction import RESERVED, ExtractedFunctions, NotExtractable, lift, unspecialised
from service.export.formulas import expression
from service.export.host_code import DESCRIPTOR, GLUON_DESCRIPTOR, HostCodeWriter, TensorNames
from service.export.variants import ExportedFunction, functions_in, variant_name
from workers.protocol import Input, Operator
from workers.protocol.extent import names_in, terms_of_extent

CHOOSE, SIZES = "choose", "sizes_of"
"""Names of a module's functions that choose a plan's function by sizes, and that find the sizes of tensors."""
_HOST = re.compile(
    rf"plan_\d+(_gradients)?|b\d+|layout_\d+|{DESCRIPTOR}|{GLUON_DESCRIPTOR}"
    "|float|int|min|max|tuple|math|choose|sizes_of"
)
_AROUND = re.compile(
    "_.*|TARGET|TRITON|NAMESPACE|DTYPES|SCALARS|RANGES|INPUTS|REMEMBERED|torch|triton|warnings|why_not|override"
    r"|register_with_vllm|operation|elsewhere|examples|reference|selection|(elite|training)_\d+"
)
_DESCRIPTORS = {
    False: f"from triton.tools.tensor_descriptor import {DESCRIPTOR}",
    True: f"from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as {GLUON_DESCRIPTOR}",
}
# `_DESCRIPTORS`: import of a class of descriptors; True for Gluon's.
# `_HOST`: names that host code uses besides module names. `_AROUND`: names of the package's operation.


@dataclass(frozen=True)
class ExportedModule:
    """Module of an elite.

    Attributes:
        text: Source text.
        certificate: Certificate of the elite.
        functions: Its functions, in the order in which they are tried.
    """

    text: str
    certificate: Certificate
    functions: tuple[ExportedFunction, ...]

    def function_for(self, sizes: Mapping[str, int]) -> int | None:
        """Return the index of the function that serves some sizes; None if none does."""
        return next((at for at, each in enumerate(self.functions) if each.admits(sizes)), None)


def names_of(operator: Operator) -> TensorNames:
    """Choose the names of tensors, scalars and sizes in host code.

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
        sizes={name: free(name) for name in operator.dimensions},
    )


def write_module(certificate: Certificate, functions: Sequence[ExportedFunction]) -> ExportedModule:
    """Write an elite's module with some functions; its certificate needs the source.

    Raises:
        NotExtractable: If the elite cannot be exported; says why.
        InvalidInput: If its operator cannot be exported.
    """
    operator = certificate.operator
    if any(item.mutable for item in operator.inputs):
        raise InvalidInput("an operator that changes its inputs cannot be exported", "SEARCH")
    if certificate.source is None:
        raise NotExtractable("its source is not available")
    names = names_of(operator)
    code = lift(certificate.source, sorted(set().union(*(functions_in(each.plan) for each in functions))))
    _require_apart(code, operator, names)
    described = {
        _DESCRIPTORS[argument.layout is not None]
        for each in functions
        for step in each.plan.launches
        for argument in step.arguments
        if argument.kind == "descriptor"
    }
    imports = sorted({*code.imports, "import math", *described}, key=lambda line: (line.startswith("from"), line))
    opening = f"{_header(certificate)}\n\n" + "\n".join(imports)
    host, layouts = list[str](), dict[str, str]()
    for at, function in enumerate(functions):
        writer = HostCodeWriter(function, operator, names, code, layouts)
        host.append(writer.forward(f"plan_{at}"))
        if operator.backward:
            host.append(writer.backward(f"plan_{at}_gradients"))
    made = [f"{name} = {said}" for said, name in layouts.items()]
    parts = [opening, "\n".join((*code.constants, *made)), *_device_functions(code, functions), *host]
    parts += [_choice(functions, operator, names), *_entries(operator, names)]
    text = "\n\n\n".join(part for part in parts if part) + "\n"
    return ExportedModule(text, certificate, tuple(functions))


def _device_functions(code: ExtractedFunctions, functions: Sequence[ExportedFunction]) -> list[str]:
    """Return the device functions, with a copy for each set of parameters that Triton must not specialise."""
    copies: dict[str, str] = {}
    launched: set[str] = set()
    for function in functions:
        for step in function.plan.launches:
            left = function.unspecialised(step)
            name = variant_name(step.function, left)
            launched.add(name)
            if left and name not in copies:
                copies[name] = unspecialised(code.functions[step.function], name, left)
    return [*code.functions.values(), *copies.values()]


def _is_ours(name: str) -> bool:
    return _clashes(name) or _AROUND.fullmatch(name) is not None


def _clashes(name: str) -> bool:
    return name in RESERVED or _HOST.fullmatch(name) is not None or "__any_" in name


def _require_apart(code: ExtractedFunctions, operator: Operator, names: TensorNames) -> None:
    """Require that device functions and constants have no name that host code uses."""
    tensors = {*names.inputs, *names.upstream, *names.outputs, *names.scalars}
    for name in code.bound:
        is_size = name in names.sizes.values() and name in code.functions
        if (_clashes(name) and name != "math") or name in tensors or is_size:
            raise NotExtractable(f"it defines '{name}', which is a name of host code")
        if name in (operator.entry, operator.backward_entry):
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


def _choice(functions: Sequence[ExportedFunction], operator: Operator, names: TensorNames) -> str:
    """Write the function that returns the functions for some sizes; None where no guards hold."""
    lines = [f"def {CHOOSE}({', '.join(names.sizes.values())}):"]
    bounds = ((names.sizes[name], max(1, low), high) for name, (low, high) in operator.ranges.items())
    limits = " and ".join(f"{low} <= {name} <= {high}" for name, low, high in bounds)
    lines += [f"    if not ({limits}):", "        return None"] if limits else []
    for at, function in enumerate(functions):
        pair = f"(plan_{at}, plan_{at}_gradients)" if operator.backward else f"(plan_{at}, None)"
        conditions = [_any_case(function, names), *(expression(each, names.sizes) for each in function.conditions)]
        held = " and ".join(filter(None, conditions))
        if not held:
            return "\n".join([*lines, f"    return {pair}"])
        lines += [f"    if {held}:", f"        return {pair}"]
    return "\n".join([*lines, "    return None"])


def _any_case(function: ExportedFunction, names: TensorNames) -> str:
    """Write the guards of a function's cases; empty if one case has none."""
    cases = [" and ".join(f"({expression(guard, names.sizes)})" for guard in case) for case in function.plan.cases]
    if "" in cases:
        return ""
    return cases[0] if len(cases) == 1 else "(" + " or ".join(f"({case})" for case in cases) + ")"


def _sizes(operator: Operator, names: TensorNames) -> str:
    """Write the function that returns the sizes of some tensors; None if they do not fit together."""
    lines, known = [f"def {SIZES}({', '.join((*names.inputs, *names.scalars))}):"], dict[str, str]()
    checks: list[str] = []
    computed: list[tuple[str, str]] = []
    for tensor, item in zip(names.inputs, operator.inputs, strict=True):
        checks += [] if item.optional else [f"{tensor}.dim() == {len(item.shape)}"]
        for axis, extent in enumerate(() if item.optional else item.shape):
            place = f"{tensor}.shape[{axis}]"
            if isinstance(extent, str) and names_in(extent) != [extent]:
                computed.append((place, extent))
            elif isinstance(extent, str) and extent not in known:
                known[extent] = place
            else:
                checks.append(f"{place} == {known[extent] if isinstance(extent, str) else extent}")
    for scalar, given in zip(operator.scalars, names.scalars, strict=True):
        if isinstance(scalar.value, str) and scalar.value not in known and names_in(scalar.value) == [scalar.value]:
            known[scalar.value] = given
        elif isinstance(scalar.value, str):
            computed.append((given, scalar.value))
    for place, extent in computed:
        known |= _solved(place, extent, known)
        checks.append(f"{place} == {_text(terms_of_extent(extent), known)}")
    checks += _presences(operator, names, known)
    lines.append(f"    if not ({' and '.join(checks)}):\n        return None")
    found = ", ".join(known[name] for name in names.sizes)
    return "\n".join([*lines, f"    return ({found},)"])


def _presences(operator: Operator, names: TensorNames, known: dict[str, str]) -> Iterator[str]:
    """Add the sizes that say which optional inputs are given, and yield the conditions on those that are."""
    for tensor, item in zip(names.inputs, operator.inputs, strict=True):
        if item.optional:
            known[item.name] = f"int({tensor} is not None)"
            yield f"({tensor} is None or {_fits(tensor, item, known)})"


def _fits(tensor: str, item: Input, known: Mapping[str, str]) -> str:
    """Write the condition that the sizes of an optional input are those that the other inputs say.

    Raises:
        InvalidInput: If they do not say one of them.
    """
    checks = [f"{tensor}.dim() == {len(item.shape)}"]
    for axis, extent in enumerate(item.shape):
        for name in names_in(extent):
            if name not in known:
                raise InvalidInput(f"the size '{name}' is that of optional inputs alone", "SEARCH")
        checks.append(f"{tensor}.shape[{axis}] == {_text(terms_of_extent(extent), known)}")
    return " and ".join(checks)


def _solved(place: str, extent: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the code of a dimension that only a product or sum has; empty if all its dimensions are known.

    Raises:
        InvalidInput: If it does not follow from the size.
    """
    terms, unknown = terms_of_extent(extent), [name for name in names_in(extent) if name not in known]
    if not unknown:
        return {}
    ours = [term for term in terms if unknown[0] in term]
    if len(unknown) > 1 or len(ours) > 1 or ours[0].count(unknown[0]) > 1:
        raise InvalidInput(f"the size '{unknown[0]}' does not follow from those of the inputs", "SEARCH")
    others = _text([term for term in terms if term not in ours], known)
    factor = _text([[each for each in ours[0] if each != unknown[0]]], known)
    return {unknown[0]: f"(({place} - ({others})) // ({factor}))"}


def _text(terms: Sequence[Sequence[str | int]], known: Mapping[str, str]) -> str:
    """Write a sum of products as code."""
    products = (" * ".join(known[each] if isinstance(each, str) else str(each) for each in term) for term in terms)
    return " + ".join(product or "1" for product in products) or "0"


def _entries(operator: Operator, names: TensorNames) -> list[str]:
    """Write the entry functions by which the module is traced."""
    inputs, scalars = ", ".join(names.inputs), ", ".join((*names.inputs, *names.scalars))
    sizes = f"{SIZES}({scalars})"
    found = [_sizes(operator, names)]
    lines = f"    sizes = {sizes}\n    return {CHOOSE}(*sizes)[{{}}]({{}}, *sizes)"
    found.append(f"def {operator.entry}({scalars}):\n" + lines.format(0, inputs))
    if operator.backward:
        tensors = ", ".join((*names.upstream, *names.inputs, *names.outputs))
        taken = ", ".join((*names.upstream, *names.inputs, *names.outputs, *names.scalars))
        found.append(f"def {operator.backward_entry}({taken}):\n" + lines.format(1, tensors))
    return found
