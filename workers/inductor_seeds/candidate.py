"""A candidate from Inductor's output: kernels without its runtime, and a function that launches them."""

import ast
import re
from collections.abc import Callable, Mapping, Sequence

from workers.inductor_seeds.attention import ATTENTION
from workers.inductor_seeds.convolving import ASSERTED, SILENT, ConvolvingHost, is_contiguous
from workers.inductor_seeds.lowering import InductorKernel, LoweredReference
from workers.inductor_seeds.naming import KNOWN, TILED, UniqueNames, name_locals, rename
from workers.inductor_seeds.operations import CONVOLUTION
from workers.inductor_seeds.products import SHORTEST, ParameterUse, flatten, put_matrices_last
from workers.inductor_seeds.recurrence import RECURRENCE
from workers.inductor_seeds.runtime import COMBINE, count_blocks, dotted, replace_runtime
from workers.inductor_seeds.simplification import bound, simplify
from workers.protocol import Operator, Outcome
from workers.protocol.extent import names_in
from workers.tracer.refusal import TraceRefused

GRIDS: Mapping[str, str] = {
    "Grid1D": "({x},)",
    "Grid2D": "({x}, {y})",
    "Grid3D": "({x}, {y}, {z})",
    "BatchMatmulGrid3D": "({z}, {y}, {x})",
    "Grid2DWithYZOverflow": "({x}, triton.cdiv({y}, triton.cdiv({y}, 65535)), triton.cdiv({y}, 65535))",
}
"""Grids by Inductor's rule, over the numbers of blocks along each axis. A grid's second axis ends at `LONGEST`."""

LONGEST = 65535
"""Maximum programs along the second and third axis of a grid (CUDA programming guide, compute capabilities)."""

_EMPTY = "empty_strided_cuda"
_HEADER = "import torch\nimport triton\nimport triton.language as tl\n"


def write(operator: Operator, lowered: LoweredReference) -> str:
    """Write the candidate's text.

    Raises:
        TraceRefused: If Inductor's host code or one of its kernels has no counterpart in a candidate.
    """
    lines = _flat(ast.parse(lowered.host).body[0])
    host = _Host(operator, lowered.kernels, _results(lines, operator), _layouts(lines))
    for at, line in enumerate(lines, 1):
        host.after = lines[at:]
        host.add(line)
    kernels = "\n\n".join(host.kernels)
    needed = _needed(kernels)
    header = _HEADER + ("from triton.language.extra import libdevice\n" if "libdevice." in kernels else "")
    return "\n\n".join([header, *needed, kernels, host.text()])


def _needed(kernels: str) -> list[str]:
    """Return the device functions that kernels need, directly or indirectly."""
    used = {name for name in COMBINE if re.search(rf"\b{name}\b", kernels)}
    used |= {name for name in COMBINE for other in used if re.search(rf"\b{name}\b", COMBINE[other])}
    return [text for name, text in COMBINE.items() if name in used]


def _results(lines: Sequence[ast.stmt], operator: Operator) -> dict[str, str]:
    """Return the operator's names of outputs by Inductor's names of their buffers."""
    reused = {
        bound(line): line.value.id
        for line in lines
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Name)
    }
    found: dict[str, str] = {}
    for line in lines:
        if isinstance(line, ast.Return) and isinstance(line.value, ast.Tuple):
            for item, output in zip(line.value.elts, operator.outputs, strict=False):
                name = ast.unparse(item)
                while name in reused:
                    name = reused[name]
                found[name] = output.name
    return found


def _layouts(lines: Sequence[ast.stmt]) -> dict[str, tuple[ast.expr, ast.expr]]:
    """Return extents and strides of tensors by Inductor's names."""
    found: dict[str, tuple[ast.expr, ast.expr]] = {}
    for line in reversed(lines):  # Results of our own operations are asserted later, under another name.
        match line:
            case ast.Expr(value=ast.Call(func=func, args=[tensor, size, stride, *_])) if dotted(func) == ASSERTED:
                found[ast.unparse(tensor)] = (size, stride)
            case ast.Assign(value=ast.Call(func=func, args=[size, stride, _])) if dotted(func) == _EMPTY:
                found[bound(line)] = (size, stride)
            case ast.Assign(value=ast.Name(id=other)) if bound(line) in found:
                found.setdefault(other, found[bound(line)])
    for line in lines:  # Memory that is used again has another name, and may have another form.
        match line:
            case ast.Assign(value=ast.Name(id=other)) if other in found:
                found.setdefault(bound(line), found[other])
            case ast.Assign(value=ast.Call(func=ast.Name(id="reinterpret_tensor"), args=[_, size, stride, *_])):
                found.setdefault(bound(line), (size, stride))
    return found


def _flat(function: ast.stmt) -> list[ast.stmt]:
    """Return the lines of a function, including those under `with`."""
    lines: list[ast.stmt] = []
    for line in getattr(function, "body", []):
        lines += _flat(line) if isinstance(line, ast.With) else [line]
    return lines


class _Host(ConvolvingHost):
    """The function that launches, line by line, and the kernels that it launches."""

    @property
    def _ours(self) -> Mapping[str, Callable[[str, ast.Call], None]]:
        """Functions that launch our own kernels for an operation, by its name."""
        return {CONVOLUTION: self._convolve, RECURRENCE: self._recur, ATTENTION: self._attend}

    def text(self) -> str:
        """Return the whole function."""
        return f"def {self.operator.entry}({', '.join(self._given)}):\n" + "".join(
            f"    {line}\n" for line in self.lines
        )

    def add(self, line: ast.stmt) -> None:
        """Translate one line of Inductor's.

        Raises:
            TraceRefused: If a candidate cannot have it.
        """
        match line:
            case ast.Delete() | ast.Expr(value=ast.Constant()):
                return
            case ast.Expr(value=ast.Call(func=func) as call):
                self._call(dotted(func), call)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name(id="args")):
                self._known |= dict(zip(map(ast.unparse, names), self._given, strict=False))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, value)
            case ast.Return(value=ast.Tuple(elts=results)):
                self.lines.append(f"return {', '.join(self._read(item) for item in results)}")
            case _:
                raise TraceRefused(
                    Outcome.FORBIDDEN_OP, f"TorchInductor's host code contains `{ast.unparse(line)[:200]}`"
                )

    def _assign(self, name: str, value: ast.expr) -> None:
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=tensor), attr="size")):
                self._sizes[name] = self._known[tensor]
            case ast.Subscript(value=ast.Name(id=sizes), slice=ast.Constant(value=int() as axis)) if (
                sizes in self._sizes
            ):
                self._size(name, self._sizes[sizes], axis)
            case ast.Call(func=ast.Name(id="get_raw_stream")):
                return
            case ast.Call(func=func, args=[size, stride, dtype]) if dotted(func) == _EMPTY:
                self._known[name] = self._names.give(self.results.get(name, "scratch"))
                self.lines.append(f"{self._known[name]} = {self._allocation(size, stride, dtype)}")
                self._extremes.tensor(self._known[name], self._read(size), ast.unparse(dtype))
            case ast.Call(func=ast.Name(id="reinterpret_tensor"), args=arguments):
                said = ", ".join(self._read(item) for item in arguments)
                self._known[name] = self._names.give("view")
                self._views[self._known[name]] = said
                self.lines.append(f"{self._known[name]} = torch.as_strided({said})")
            case ast.Call(func=func) if dotted(func) in self._ours:
                self._ours[dotted(func)](name, value)
            case ast.Name(id=other):
                self._known[name] = self._known.get(other, other)
            case ast.Call():
                raise TraceRefused(
                    Outcome.FORBIDDEN_OP, f"TorchInductor's host code calls `{ast.unparse(value)[:200]}`"
                )
            case _:
                code = self._read(value)
                self._known[name] = self._names.give("count")
                self._extremes.number(self._known[name], code)
                self._numbers.number(self._known[name], code)
                self.lines.append(f"{self._known[name]} = {code}")

    def _size(self, symbol: str, tensor: str, axis: int) -> None:
        """Bind a size of an input, under the operator's name for it."""
        shape = next(item.shape for item in self.operator.inputs if item.name == tensor)
        if symbol not in self._known:
            self._known[symbol] = self._names.give("_".join(names_in(shape[axis])) or f"d{axis}")
            self.lines.append(f"{self._known[symbol]} = {tensor}.shape[{axis}]")
            self._extremes.dimension(self._known[symbol], shape[axis])
            self._numbers.dimension(self._known[symbol], shape[axis])

    def _allocation(self, size: ast.expr, stride: ast.expr, dtype: ast.expr) -> str:
        device = f"device={self._given[0]}.device"
        if is_contiguous(size, stride):
            return f"torch.empty({self._read(size)}, dtype={ast.unparse(dtype)}, {device})"
        return f"torch.empty_strided({self._read(size)}, {self._read(stride)}, dtype={ast.unparse(dtype)}, {device})"

    def _call(self, name: str, call: ast.Call) -> None:
        kernel, _, method = name.rpartition(".")
        if kernel in self.drafts and method == "run":
            self._launch(self.drafts[kernel], [self._read(item) for item in call.args])
        elif name not in SILENT:
            raise TraceRefused(Outcome.FORBIDDEN_OP, f"TorchInductor's host code calls {name}")

    def _launch(self, draft: InductorKernel, arguments: Sequence[str]) -> None:
        if draft.grid not in GRIDS:
            raise TraceRefused(Outcome.UNSUPPORTED_LAUNCH, f"TorchInductor uses the unknown grid {draft.grid}")
        function = ast.parse(draft.text).body[0]
        assert isinstance(function, ast.FunctionDef)
        simplify(replace_runtime(function))
        parameters = [item.arg for item in function.args.args]
        passed = dict(zip(parameters, arguments, strict=False))
        if self._fuse(function, passed, draft.grid):
            return
        self._settle()
        use = self._use(passed)
        plain = flatten(function, use)
        simplify(function)
        blocks = {name: value for name, value in draft.options.items() if name in parameters}
        counts = {
            axis: count_blocks(passed[extent], blocks[block])
            for axis, extent, block in (("x", "xnumel", "XBLOCK"), ("y", "ynumel", "YBLOCK"), ("z", "znumel", "ZBLOCK"))
            if extent in passed and block in blocks
        }
        used = {item.id for item in ast.walk(function) if isinstance(item, ast.Name)}
        function.args.args = [item for item in function.args.args if item.arg in used]
        rule = self._grid(draft.grid, function, passed, use) if plain else draft.grid
        name, renamed = self._written(draft, function, passed, plain=plain)
        positional = [passed[item] for item in parameters if item in used and item in passed]
        keywords = [f"{renamed[item]}={value}" for item, value in blocks.items() if item in used]
        options = [f"{item}={draft.options[item]}" for item in ("num_warps", "num_stages")]
        self.lines.append(f"{name}[{GRIDS[rule].format(**counts)}]({', '.join([*positional, *keywords, *options])})")

    def _grid(self, rule: str, function: ast.FunctionDef, passed: Mapping[str, str], use: ParameterUse) -> str:
        """Return the rule for the grid of a kernel with plain tiles.

        Programs of one matrix are neighbours where the grid allows it: they share what they load.
        """
        if use.short and rule == "Grid2DWithYZOverflow":
            return "Grid2D"
        matrices = self._extremes.most(passed["znumel"]) if rule == "BatchMatmulGrid3D" else None
        if not use.short or matrices is None or matrices > LONGEST:
            return rule
        put_matrices_last(function)
        return "Grid3D"

    def _written(
        self, draft: InductorKernel, function: ast.FunctionDef, passed: Mapping[str, str], *, plain: bool
    ) -> tuple[str, Mapping[str, str]]:
        """Write a kernel, once for all equal ones. Returns its name, and new names by Inductor's."""
        text = ast.unparse(function)
        if text not in self._names_by_text:
            helpers = self._helpers(draft)
            name = self._names.give(f"{self.operator.entry}_kernel")
            renamed = name_locals(function, self._parameters(function, passed, plain=plain)) | helpers
            rename(function, renamed | {function.name: name})
            self._keep(function)
            self._names_by_text[text] = name, renamed
        return self._names_by_text[text]

    def _helpers(self, draft: InductorKernel) -> dict[str, str]:
        """Write the functions of a kernel's reductions and scans. Returns their names by Inductor's."""
        found: dict[str, str] = {}
        for function in ast.parse(draft.helpers).body:
            assert isinstance(function, ast.FunctionDef)
            simplify(replace_runtime(function))
            found[function.name] = self._names.give("combine")
            given = [item.arg for item in function.args.args]
            short = [f"{'ab'[item.startswith('arg1')]}{item.rpartition('_')[2]}" for item in given]
            names = dict(zip(given, short if len(given) > 2 else "ab", strict=False))
            rename(function, name_locals(function, names) | {function.name: found[function.name]})
            self._keep(function)
        return found

    def _use(self, passed: Mapping[str, str]) -> ParameterUse:
        """Return a launch's facts about the parameters of a kernel with a matrix product."""
        most = self._extremes.most(passed["ynumel"]) if "ynumel" in passed else None
        dtypes = {name: self._extremes.dtypes[code] for name, code in passed.items() if code in self._extremes.dtypes}
        small = {name for name, code in passed.items() if self._extremes.is_small(code)}
        return ParameterUse(passed, dtypes, small, short=most is not None and most <= SHORTEST * LONGEST)

    def _parameters(self, function: ast.FunctionDef, passed: Mapping[str, str], *, plain: bool) -> dict[str, str]:
        """Name a kernel's parameters after the host's arguments."""
        names, found = UniqueNames(), dict[str, str]()
        for item in function.args.args:
            value = passed.get(item.arg, "")
            if "ptr" in item.arg:
                wish = f"{value}_ptr" if value.isidentifier() else "ptr"
            elif plain and (value.isidentifier() or item.arg in TILED):
                wish = TILED.get(item.arg, value)
            else:
                wish = KNOWN.get(item.arg) or (
                    value if value.isidentifier() and item.arg.startswith("ks") else item.arg
                )
            found[item.arg] = names.give(wish)
        return found
