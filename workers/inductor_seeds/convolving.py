"""Convolutions, recurrent layers and attention in a candidate's host function.

A convolution has an elementwise kernel as its end where one alone reads it.
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from workers.inductor_seeds.attention_kernel import Attention, options_for
from workers.inductor_seeds.convolution import (
    ChannelsLast,
    Convolution,
    product_of,
    read_convolution,
)
from workers.inductor_seeds.epilogue import ConvolutionResult, Epilogue, SampledNumbers, join
from workers.inductor_seeds.extremes import FAR, Extremes
from workers.inductor_seeds.fixed_sizes import MOST_KERNELS
from workers.inductor_seeds.lowering import InductorKernel
from workers.inductor_seeds.naming import UniqueNames, name_locals, rename
from workers.inductor_seeds.operations import CONVOLUTION
from workers.inductor_seeds.recurrence import OPTIONS as RECURRENCE_OPTIONS
from workers.inductor_seeds.recurrence import Recurrence
from workers.inductor_seeds.runtime import dotted
from workers.inductor_seeds.simplification import bound, simplify
from workers.protocol import Operator, Outcome
from workers.tracer.refusal import TraceRefused

ASSERTED = "assert_size_stride"
SILENT = (ASSERTED, "args.clear", "torch.cuda.set_device", "assert_alignment")
"""Calls of Inductor's host code that compute nothing."""

GRID = "Grid1D"
"""Inductor's grid of kernels that count elements along one axis."""

_IN_PLACE = "in_out_ptr"
_NUMBERED = re.compile(r"(tmp|x|y|z|ks)\d+")
"""Names that Inductor numbers."""
_FUNCTIONS: Mapping[str, Callable[..., int]] = {"max": max, "min": min}
"""Functions that code of sizes and strides calls."""


@dataclass(frozen=True)
class PendingConvolution:
    """A convolution that waits for the kernel that reads it.

    Attributes:
        convolution: The convolution.
        made: Name of its result.
        allocation: Host line that allocates its result; empty if that is done.
        arguments: Host code by the kernel's parameter.
        grid: Grid of its launch.
        result: Its result.
    """

    convolution: Convolution
    made: str
    allocation: str
    arguments: Mapping[str, str]
    grid: str
    result: ConvolutionResult


@dataclass
class ConvolvingHost:
    """The lines of a host function, and the kernels that they launch."""

    operator: Operator
    drafts: Mapping[str, InductorKernel]
    results: Mapping[str, str]
    layouts: Mapping[str, tuple[ast.expr, ast.expr]]
    lines: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    after: Sequence[ast.stmt] = ()
    """Inductor's lines after the current one."""

    def __post_init__(self) -> None:
        self._given = [item.name for item in self.operator.inputs] + [item.name for item in self.operator.scalars]
        self._names = UniqueNames([*self._given, self.operator.entry])
        self._known = {"reinterpret_tensor": "torch.as_strided"}
        self._names_by_text: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._sizes: dict[str, str] = {}
        self._extremes = Extremes(self.operator)
        self._numbers = SampledNumbers(self.operator)
        self._views: dict[str, str] = {}
        self._pending: PendingConvolution | None = None

    def _read(self, value: ast.expr) -> str:
        # A copy: layouts hold the same extents by Inductor's names, as the strides are.
        renamed = deepcopy(value)
        rename(renamed, self._known)
        return ast.unparse(renamed)

    def _convolve(self, name: str, call: ast.Call) -> None:
        """Launch our own kernel for a convolution, or keep it for the kernel that alone reads it."""
        x, weight, y = self._extents(*call.args[:2], ast.Name(name))
        extents = [[self._read(item) for item in sizes] for sizes in (x, weight, y)]
        given = [self._read(item) for item in call.args[:2]]
        made = self._names.give(self.results.get(name, "scratch"))
        allocation = self._like(given[0], made, f"({', '.join(extents[2])})")
        most = [self._extremes.most(channels) or FAR for _, channels, *_ in extents]
        far, wide = (not self._extremes.is_small(name) for name in (given[0], made))
        convolution = read_convolution(call, weight, y, most, far=far, wide=wide, precision=self._precision)
        places = self._extremes.most(product_of([extents[2][0], *extents[2][2:]])) or convolution.sizes.places
        sizes = replace(convolution.sizes, places=places)
        convolution = replace(convolution, sizes=sizes, rounded=all(map(self._is_rounded, given)))
        codes = dict(zip(convolution.parameters[3:], convolution.arguments(*extents), strict=True))
        if self._has_one_shape:
            fixed = {parameter: int(code) for parameter, code in codes.items() if code.isdecimal()}
            convolution = replace(convolution, fixed=fixed)
        if convolution.is_packed:
            copies = zip(given, convolution.copies(*extents[:2]), strict=True)
            given = [self._pack(tensor, how) for tensor, how in copies]
        self._known[name] = made
        tensors = [*given, made]
        reader = find_reader(name, self.after, self.drafts)
        if reader and reader.is_kept:
            self.lines.append(allocation)
            allocation = ""
        self._pending = PendingConvolution(
            convolution,
            made,
            allocation,
            {name: codes.get(name) or tensors.pop(0) for name in convolution.parameters},
            convolution.grid(*extents),
            ConvolutionResult(
                places=product_of(extents[2][2:]),
                filters=extents[2][1],
                elements=product_of(extents[2]),
                groups=convolution.groups,
                is_tile=not convolution.is_separate,
                per_thread=convolution.results_per_thread,
            ),
        )
        if reader is None:
            self._settle()

    def _recur(self, name: str, call: ast.Call) -> None:
        """Launch our own kernel for every position of recurrent layers."""
        self._settle()
        *tensors, kind, chained = call.args
        gates, h, states = self._extents(tensors[0], tensors[1], ast.Name(name))
        given = [self._read(item) for item in tensors]
        made = self._names.give(self.results.get(name, "states"))
        self.lines.append(self._like(given[0], made, f"({', '.join(self._read(item) for item in states)})"))
        self._known[name] = made
        of = Recurrence(
            ast.literal_eval(kind),
            ast.literal_eval(chained),
            self._precision,
            all(map(self._is_rounded, (given[0], given[3]))),
            RECURRENCE_OPTIONS,
        )
        kernel = self._own_kernel(of.kernel())
        extents = [[self._read(item) for item in sizes] for sizes in (gates, h)]
        self.lines += of.launches(kernel, [*given, made], *extents)

    def _attend(self, name: str, call: ast.Call) -> None:
        """Launch our own kernel for attention."""
        self._settle()
        *tensors, scale, masks, outer, empty_is_zero = call.args
        given = [item for item in tensors if not isinstance(item, ast.Constant)]
        q, k, v, *bias = ([self._read(item) for item in sizes] for sizes in self._extents(*given))
        codes = [self._read(item) for item in given]
        is_single = self._dtypes(codes[0]) == {"tl.float32"}
        made = self._names.give(self.results.get(name, "scratch"))
        self.lines.append(self._like(codes[0], made, f"({', '.join([*q[:2], v[2]])})"))
        self._known[name] = made
        wide, channels = int(q[2]), int(v[2])
        of = Attention(
            wide=wide,
            channels=channels,
            scale=float(ast.literal_eval(scale)),
            biased=bool(bias),
            masks=ast.literal_eval(masks),
            outer=ast.literal_eval(outer),
            empty_is_zero=ast.literal_eval(empty_is_zero),
            precision="ieee" if is_single and self.operator.precision.allow_tf32 is not True else None,
            options=options_for((wide, channels), self._extremes.most(q[1]), is_single=is_single),
        )
        kernel = self._own_kernel(of.kernel())
        self.lines.append(of.launch(kernel, [*codes, made], q, k[1], bias[0] if bias else ()))

    @property
    def _has_one_shape(self) -> bool:
        """True if kernels are written for one shape alone. Whole models share kernels of layers instead."""
        return not self.operator.ranges and len(self.operator.shapes) == 1 and len(self.drafts) <= MOST_KERNELS

    @property
    def _precision(self) -> str | None:
        """Input precision of products of our own kernels; None for the default."""
        exactly = not self.operator.precision.allow_tf32 and any(i.dtype == "float32" for i in self.operator.inputs)
        return "ieee" if exactly else None

    def _extents(self, *tensors: ast.expr) -> list[list[ast.expr]]:
        """Return the extents of packed tensors.

        Raises:
            TraceRefused: If one is not packed.
        """
        layouts = [self._layout(item) for item in tensors]
        if not all(is_contiguous(*layout) for layout in layouts):
            raise TraceRefused(
                Outcome.FORBIDDEN_OP,
                "a convolution or recurrent layer in TorchInductor's code reads or writes a tensor that is not packed",
            )
        return [[*size.elts] for size, _ in layouts if isinstance(size, ast.Tuple)]

    def _settle(self) -> None:
        """Launch a pending convolution by itself."""
        if (pending := self._pending) is not None:
            self._pending = None
            self.lines += [pending.allocation] * bool(pending.allocation)
            function = pending.convolution.kernel()
            arguments = [*pending.arguments.values(), *_keywords(pending.convolution.options)]
            self.lines.append(f"{self._own_kernel(function)}[{pending.grid}]({', '.join(arguments)})")

    def _fuse(self, function: ast.FunctionDef, passed: Mapping[str, str], grid: str) -> bool:
        """Launch a pending convolution with a kernel as its end. Returns False if it cannot be.

        Args:
            function: The kernel, without Inductor's runtime.
            passed: Host code by the kernel's parameter.
            grid: Name of Inductor's rule for its grid.
        """
        pending = self._pending
        if pending is None or grid != GRID:
            return False
        reads = [name for name, code in passed.items() if "ptr" in name and pending.made in self._origins(code)]
        written = {code for name, code in passed.items() if name.startswith((_IN_PLACE, "out_ptr"))}
        if len(reads) != 1 or any(self._overlap(pending.arguments[name], written) for name in ("x_ptr", "weight_ptr")):
            return False
        lines = Epilogue(function, reads[0], passed, self._numbers, pending.result).lines()
        if lines is None:
            return False
        self._pending = None
        joined = join(pending.convolution.kernel(), function, lines, reads[0])
        simplify(joined)
        codes = dict(pending.arguments) | dict(passed)
        _share_sizes(joined, codes)
        given = [item.arg for item in joined.args.args if item.annotation is None]
        kernel = self._own_kernel(joined, {name: codes[name] for name in given if name in passed})
        arguments = [codes[name] for name in given] + _keywords(pending.convolution.options)
        self.lines.append(f"{kernel}[{pending.grid}]({', '.join(arguments)})")
        return True

    def _pack(self, tensor: str, how: ChannelsLast) -> str:
        """Copy a tensor with its channels last. Returns the copy's name."""
        made = self._names.give("scratch")
        self.lines.append(self._like(tensor, made, f"({', '.join(how.shape)})"))
        options = how.options(self._extremes.most(how.channels) or FAR)
        kernel = self._own_kernel(how.kernel(rounded=self._is_rounded(tensor)))
        arguments = [tensor, made, *how.arguments, *_keywords(options)]
        self.lines.append(f"{kernel}[{how.grid(options)}]({', '.join(arguments)})")
        return made

    def _is_rounded(self, tensor: str) -> bool:
        """True if a convolution's factor is float32 that is rounded to TF32."""
        return bool(self.operator.precision.allow_tf32) and self._dtypes(tensor) == {"tl.float32"}

    def _dtypes(self, tensor: str) -> set[str | None]:
        """Return the known dtype of a tensor, or of what it is a view of."""
        return {self._extremes.dtypes.get(name) for name in self._origins(tensor)} - {None}

    def _like(self, tensor: str, made: str, shape: str) -> str:
        """Return the line that allocates a packed tensor of another's dtype, and note its size."""
        if tensor in self._extremes.dtypes:
            self._extremes.tensor(made, shape, self._extremes.dtypes[tensor])
        return f"{made} = torch.empty({shape}, dtype={tensor}.dtype, device={self._given[0]}.device)"

    def _own_kernel(self, function: ast.FunctionDef, passed: Mapping[str, str] | None = None) -> str:
        """Write a kernel of ours, once for all equal ones. Returns its name.

        Args:
            function: The kernel.
            passed: Host code by parameter, to name parameters of Inductor's after; None if there are none.
        """
        simplify(function)
        text = ast.unparse(function)
        if text not in self._names_by_text:
            name = self._names.give(f"{self.operator.entry}_{function.name}")
            rename(function, _new_names(function, passed or {}) | {function.name: name})
            self._keep(function)
            self._names_by_text[text] = name, {}
        return self._names_by_text[text][0]

    def _keep(self, function: ast.FunctionDef) -> None:
        self.kernels.append(ast.unparse(ast.fix_missing_locations(function)) + "\n")

    def _layout(self, tensor: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return extents and strides of a tensor."""
        match tensor:
            case ast.Name(id=name) if name in self.layouts:
                return self.layouts[name]
            case ast.Call(func=ast.Name(id="reinterpret_tensor"), args=[_, size, stride, *_]):
                return size, stride
        raise TraceRefused(
            Outcome.FORBIDDEN_OP, f"the layout of `{ast.unparse(tensor)[:200]}`, which is convolved, is unknown"
        )

    def _overlap(self, code: str, others: Iterable[str]) -> bool:
        """True if a tensor may share memory with one of others, which views tell."""
        return bool(self._origins(code) & {name for other in others for name in self._origins(other)})

    def _origins(self, code: str) -> set[str]:
        names = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        return names | {name for view in names & self._views.keys() for name in self._origins(self._views[view])}


@dataclass(frozen=True)
class ResultReader:
    """Sole reader of a convolution's result is the next launch.

    Attributes:
        is_kept: True if it or a later kernel writes to the result's memory, which therefore is allocated.
    """

    is_kept: bool


def find_reader(name: str, after: Sequence[ast.stmt], drafts: Mapping[str, InductorKernel]) -> ResultReader | None:
    """Return the reader of a convolution's result, if it is the next launch and nothing else reads it.

    Args:
        name: Inductor's name of the result.
        after: Inductor's lines after the convolution.
        drafts: Inductor's kernels by name.
    """
    names, is_read, is_kept = {name}, False, False
    for line in after:
        mentioned = names & {node.id for node in ast.walk(line) if isinstance(node, ast.Name)}
        if not is_read and _is_launch(line):
            if not mentioned or _is_convolution(line):
                return None
            if mentioned & _written_in_place(line, drafts):
                return ResultReader(is_kept=True)
            is_read = True
        elif mentioned and not _is_silent(line):
            if not _is_same_memory(line, is_read=is_read):
                return None
            is_kept = is_kept or is_read or not (isinstance(line, ast.Assign) and isinstance(line.value, ast.Name))
            names |= set() if is_read else {bound(line)}
    return ResultReader(is_kept) if is_read else None


def _is_same_memory(line: ast.stmt, *, is_read: bool) -> bool:
    """True for other names of a tensor's memory; of views, only for those of an unread result from its beginning."""
    match line:
        case ast.Assign(value=ast.Name()):
            return True
        case ast.Assign(
            value=ast.Call(func=ast.Name(id="reinterpret_tensor"), args=[ast.Name(), _, _, ast.Constant(value=0)])
        ):
            return not is_read
    return False


def _is_launch(line: ast.stmt) -> bool:
    """True for launches of kernels and for convolutions."""
    calls = (node for node in ast.walk(line) if isinstance(node, ast.Call))
    return _is_convolution(line) or any(dotted(call.func).endswith(".run") for call in calls)


def _is_convolution(line: ast.stmt) -> bool:
    return any(isinstance(node, ast.Call) and dotted(node.func) == CONVOLUTION for node in ast.walk(line))


def _is_silent(line: ast.stmt) -> bool:
    match line:
        case ast.Delete():
            return True
        case ast.Expr(value=ast.Call(func=func)):
            return dotted(func) in SILENT
    return False


def _written_in_place(line: ast.stmt, drafts: Mapping[str, InductorKernel]) -> set[str]:
    """Return Inductor's names of the tensors that a launch reads and writes."""
    match line:
        case ast.Expr(value=ast.Call(func=func, args=arguments)) if draft := drafts.get(
            dotted(func).rpartition(".")[0]
        ):
            function = ast.parse(draft.text).body[0]
            assert isinstance(function, ast.FunctionDef)
            pairs = zip(function.args.args, arguments, strict=False)
            return {ast.unparse(code) for parameter, code in pairs if parameter.arg.startswith(_IN_PLACE)}
    return set()


def _keywords(options: Mapping[str, int]) -> list[str]:
    return [f"{option}={value}" for option, value in options.items()]


def _share_sizes(function: ast.FunctionDef, codes: Mapping[str, str]) -> None:
    """Leave one parameter for equal sizes, in place."""
    sizes = [item.arg for item in function.args.args if item.annotation is None and "ptr" not in item.arg]
    first = {codes[name]: name for name in reversed(sizes)}
    rename(function, {name: first[codes[name]] for name in sizes})
    kept = {item.arg: item for item in function.args.args}
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    function.args.args = [item for name, item in kept.items() if name in used]


def _new_names(function: ast.FunctionDef, passed: Mapping[str, str]) -> dict[str, str]:
    """Name what comes from a kernel of Inductor's: its parameters after the host's arguments."""
    own = {item.arg for item in function.args.args if item.arg not in passed}
    own |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)} - passed.keys()
    mine = {name for name in own if not _NUMBERED.fullmatch(name)}
    names, found = UniqueNames([*mine, *(name.removesuffix("_ptr") for name in mine)]), {name: name for name in mine}
    for name, code in passed.items():
        stem = names.give(code if code.isidentifier() else "value")
        found[name] = f"{stem}_ptr" if "ptr" in name else stem
    return name_locals(function, found)


def is_contiguous(size: ast.expr, stride: ast.expr) -> bool:
    """True if strides are those of a packed tensor of any size, tested with large primes as sizes."""
    read = {item.id for node in (size, stride) for item in ast.walk(node) if isinstance(item, ast.Name)}
    symbols = sorted(read - _FUNCTIONS.keys())
    primes = dict(zip(symbols, (10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079), strict=False))
    if len(primes) < len(symbols):
        return False
    sizes, strides = (_evaluated(node, primes) for node in (size, stride))
    expected = 1
    for extent, step in zip(reversed(sizes), reversed(strides), strict=True):
        if extent != 1 and step != expected:
            return False
        expected *= extent
    return True


def _evaluated(node: ast.expr, values: Mapping[str, int]) -> tuple[int, ...]:
    found: tuple[int, ...] = eval(ast.unparse(node), {"__builtins__": dict(_FUNCTIONS)}, dict(values))
    return found
