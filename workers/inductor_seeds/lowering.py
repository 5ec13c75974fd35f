"""Lowering of a reference by TorchInductor for a target without its card: texts and numbers, nothing compiled.

Sizes stay symbols, so that one text serves every shape. Matrix products become Triton kernels too (Inductor's native
matmul) instead of calls of a vendor's library.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module, reload
from math import prod
from types import ModuleType
from typing import Any, Protocol

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from workers.inductor_seeds import recurrence
from workers.inductor_seeds.all_sizes import require_all_sizes
from workers.inductor_seeds.attention import join_attention
from workers.inductor_seeds.complex_pairs import complex_pairs
from workers.inductor_seeds.extremes import values_of
from workers.inductor_seeds.flat_products import flatten_products
from workers.inductor_seeds.folding import number_of
from workers.inductor_seeds.graph_nodes import insert_call
from workers.inductor_seeds.indexing import terms
from workers.inductor_seeds.operations import DECOMPOSITIONS, NAMESPACE, extended
from workers.inductor_seeds.reordering import reorder_by_reads
from workers.inductor_seeds.rounding import round_what_is_read_twice
from workers.inductor_seeds.runtime import dotted
from workers.protocol import Operator, Outcome
from workers.protocol.extent import size_of
from workers.resizing import RESIZING
from workers.targets import Target
from workers.tracer.fake_device import DEVICE, pretend
from workers.tracer.recurrent import PlainCells, WholeLayers
from workers.tracer.reference import load_entry
from workers.tracer.refusal import TraceRefused

SMALLEST_HINT = 2
"""Minimum size hint for Inductor, which would treat a size of 1 as always 1."""

REGISTERS = 64
"""Maximum registers per thread, of 255 addressable ones, for the accumulators of a kernel's products. For sm_90, Triton
3.7 spills at most 4 bytes with 64, and up to 728 with 128 (measured with float32 products)."""

WIDEST_BYTES = 4
"""Maximum bytes of an element of a product's operands."""

REDUCED = 1024
"""Maximum elements of a tile of whole rows: 4 to 16 per thread with the warps that Inductor gives it."""

PROGRAMS = 8
"""Minimum programs per processor of a grid of whole rows, as many as fit there at the same time with 8 warps."""

COLUMNS: Mapping[str, int] = {"XBLOCK": 64, "R0_BLOCK": 64, "num_warps": 8}
"""Configuration of sums along strided axes: 0.92 of the time with Inductor's first choice of 128 and 4 with 4 warps for
sums of 4096 rows of 4095 float32, and 1.6 to 3 times as long for maxima and minima (H200, 2026-12-01)."""

WINDOWS: Mapping[str, int] = {"XBLOCK": 256, "num_warps": 4}
"""Configuration of kernels that read neighbours of each element: two elements per thread are 1.4 times as fast as
Inductor's eight for averages of eight neighbours, and one per thread is slower than both (H200, 2026-12-01)."""

FEWEST_NEIGHBOURS = 3
"""Minimum loads of such a kernel."""

WIDEST_LOAD = 4
"""Elements of the widest load of float32."""

UNROLLED = 1024
"""Maximum multiplications per thread in one loop iteration without a matrix unit. The compiler unrolls them: with 2048
it takes most of a trace's time limit."""

FAR_APART = 2**16
"""Minimum elements of a sum whose second reading finds them in no cache: 256 KiB of float32 for each of 132 processors,
of 50 MB of L2 on an H100, which also holds what else is read."""

SMALLEST_TILE = 32
"""Extent of the smallest tiles in Inductor's list for products."""

_KERNEL = re.compile(r"async_compile\.triton\('(?P<name>\w+)', '''(?P<text>.*?)'''", re.DOTALL)
_FOREIGN = re.compile(rf"\bextern_kernels\.\w+|(?<!')\btorch\.ops\.(?!{NAMESPACE}\.)[\w.]+|\bcpp_fused\w*")
"""Calls of other code than kernels. Names in quotes are only descriptions."""
_FAST = {
    axis: re.compile(rf"^ +({name}\d+) = \(?{index}(?: % .*\))?$", re.MULTILINE)
    for axis, name, index in (("x", "x", "xindex"), ("r", "r0_", "r0_index"))
}
"""Names of a kernel that are an index along results or sums, or its remainder: both step by one."""
_EXTREME = re.compile(r"triton_helpers\.(max|min)")
"""Largest or smallest values in a kernel."""
_FULL = torch.ops.aten.full.default
_IN_PLACE = re.compile(r"aten\.\w+_\.")
"""Name of an operation that works in place."""
_BOUNDARY = "@triton.jit"
_CACHED = type(cache(len))


@dataclass(frozen=True)
class InductorKernel:
    """One kernel as Inductor wrote it.

    Attributes:
        name: Name of the jit function.
        text: The jit function.
        grid: Name of Inductor's rule for the grid.
        options: Blocks by parameter, and `num_warps` and `num_stages`: one choice of Inductor's heuristics.
        helpers: Text of the combine functions of the jit function's reductions and scans.
    """

    name: str
    text: str
    grid: str
    options: Mapping[str, int]
    helpers: str = ""


@dataclass(frozen=True)
class LoweredReference:
    """A reference, lowered by Inductor.

    Attributes:
        host: Inductor's `call` function, as text.
        kernels: Kernels by name.
    """

    host: str
    kernels: Mapping[str, InductorKernel]


def lower(operator: Operator, target: Target) -> LoweredReference:
    """Let Inductor generate Triton. Affects the whole process: torch answers for the target from now on.

    Few operations that work in place have kernels. With others among them all make new tensors, and inputs that change
    are written to at the end.

    Raises:
        TraceRefused: If Inductor's output contains something else than Triton kernels.
    """
    try:
        return _lowered(operator, target, copied=False)
    except TraceRefused as refusal:
        if _IN_PLACE.search(refusal.reason) is None:
            raise
        return _lowered(operator, target, copied=True)


def _lowered(operator: Operator, target: Target, *, copied: bool) -> LoweredReference:
    pretend(target)
    forget_machine()
    traced, inputs = _trace(operator, copied=copied)
    try:
        text = _generate(traced, inputs)
    except BlockingIOError as error:  # The sandbox forbids processes, such as a compiler's.
        raise TraceRefused(
            Outcome.FORBIDDEN_OP, "TorchInductor has no Triton kernel for it, but asks for C++"
        ) from error
    found = re.search(r"^    def call\(self, args\):\n(?P<body>(?:^(?: {8}.*)?\n)+)", text, re.MULTILINE)
    if found is None:
        raise TraceRefused(Outcome.TRACE_CRASHED, "TorchInductor's module has no function that launches kernels")
    if foreign := _FOREIGN.search(found["body"]):
        raise TraceRefused(Outcome.FORBIDDEN_OP, f"TorchInductor calls {foreign[0]}, which is no Triton kernel")
    drafts = {match["name"]: _draft(match["name"], match["text"], target) for match in _KERNEL.finditer(text)}
    if not drafts and f"torch.ops.{NAMESPACE}." not in found["body"]:
        raise TraceRefused(Outcome.FORBIDDEN_OP, "TorchInductor needs no kernel for it")
    return LoweredReference("def call(self, args):\n" + found["body"], drafts)


def forget_machine() -> None:
    """Clear torch's caches of facts about the machine, which the parent process may have filled."""
    # This module copies functions of `torch.cuda` at its import. Reloading keeps the namespace, so importers of its
    # names see the new answers too.
    reload(_late("torch._dynamo.device_interface"))
    _late("torch._inductor.runtime.hints").DeviceProperties.create.cache_clear()
    for module in ("torch.utils._triton", "torch._inductor.utils"):
        for item in vars(_late(module)).values():
            if isinstance(item, _CACHED):
                item.cache_clear()


def _trace(operator: Operator, *, copied: bool) -> tuple[fx.GraphModule, list[FakeTensor]]:
    """Trace the reference to a graph over symbolic sizes, on the target's device; `copied` as `lower` says.

    It is traced on the CPU first: fake tensors of a device that torch was not built for fail at some operations.
    """
    if operator.backward:
        raise TraceRefused(
            Outcome.FORBIDDEN_OP, "the operator has gradients, and TorchInductor seeds compute results only"
        )
    if operator.dimensions != operator.extents:
        raise TraceRefused(Outcome.FORBIDDEN_OP, "a scalar of the operator is a size that no input has")
    named = _late("torch._dynamo.source").ConstantSource
    lowered = _late("torch._inductor.lowering").lowerings  # Some decompositions, such as that of max pooling, need it.
    known = {**_spelled_out(lowered), **_late("torch._inductor.decomposition").select_decomp_table()}
    table = extended({**known, **DECOMPOSITIONS, **recurrence.DECOMPOSITIONS})
    entry, scalars = load_entry(operator), [scalar.value for scalar in operator.scalars]
    symbolic = _late("torch.fx.experimental.symbolic_shapes")
    sizes = symbolic.ShapeEnv(duck_shape=False, specialize_zero_one=False)
    dims: dict[str, Any] = {}
    alone = {extent for item in operator.inputs for extent in item.shape}
    for name in operator.dimensions:
        if name not in alone or len(set(values_of(operator, name))) == 1:
            # TorchInductor reads sizes off axes, and cannot divide. A size that is always the same is a number.
            dims[name] = _only_value(operator, name)
            continue
        hint, source = max(SMALLEST_HINT, operator.shapes[0].dims[name]), named(name)
        symbol = sizes.create_symbol(hint, source=source, dynamic_dim=symbolic.DimDynamic.DYNAMIC)
        dims[name] = sizes.create_symintnode(symbol, hint=hint, source=source)

    def call(*tensors: torch.Tensor) -> tuple[object, ...]:
        with complex_pairs():
            return entry(*tensors, *scalars)

    called = torch.func.functionalize(call, remove="mutations") if copied else call

    fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=sizes)
    # Torch's own compositions in C++, such as that of resizing, take numbers for sizes; those in Python do not.
    composed = _late("torch._dispatch.python").enable_python_dispatcher
    with fake, torch.no_grad(), sdpa_kernel(SDPBackend.MATH), WholeLayers(), PlainCells(), composed():
        inputs: list[Any] = [
            torch.empty([size_of(extent, dims) for extent in item.shape], dtype=getattr(torch, item.dtype))
            for item in operator.inputs
        ]
        traced = make_fx(called, decomposition_table=table)(*inputs)
    require_all_sizes(operator, dims, [guard.expr for guard in sizes.guards], call, traced)
    join_attention(traced, fake)
    flatten_products(traced, fake)
    _make_numbers(traced, fake)
    _move(traced, inputs)
    return traced, inputs


def _spelled_out(lowered: Container[object]) -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """Return torch's formulas of operations that Inductor would call as they are, such as bilinear resizing."""
    formulas = _late("torch._decomp").decomposition_table.items()
    for operation, formula in RESIZING.items():  # Torch's own comes first, and makes NaN of one infinite neighbour.
        called = operation.overloadpacket.vec
        for key in (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd):
            called.py_kernels[key] = partial(_resized, formula)
        called._dispatch_cache.clear()
    return {
        operation: formula
        for operation, formula in formulas
        if isinstance(operation, torch._ops.OpOverload)
        and operation not in lowered
        and not operation._schema.is_mutable
    }


def _resized(
    formula: Callable[..., torch.Tensor],
    x: torch.Tensor,
    size: Sequence[int] | None,
    align_corners: bool,
    factors: Sequence[float] | None,
) -> torch.Tensor:
    """Resize a tensor as `torch.nn.functional.interpolate` does: to a size, or by factors."""
    sizes = _late("torch._decomp.decompositions").upsample_compute_output_size(x.size(), size, factors)
    return formula(x, sizes, align_corners, *(factors or ()))


def _only_value(operator: Operator, name: str) -> int:
    """Return the size of a dimension that has one.

    Raises:
        TraceRefused: If it has several.
    """
    if len(set(values_of(operator, name))) > 1:
        reason = f"the size '{name}' is no axis of an input by itself, and TorchInductor cannot compute it from others"
        raise TraceRefused(Outcome.FORBIDDEN_OP, reason)
    return operator.shapes[0].dims[name]


def _make_numbers(traced: fx.GraphModule, mode: FakeTensorMode) -> None:
    """Have a graph make the numbers that the reference holds as tensors: Inductor would compute with them in C++."""
    for node in [*traced.graph.nodes]:
        held = getattr(traced, str(node.target)) if node.op == "get_attr" else None
        if isinstance(held, torch.Tensor) and not held.dim() and not held.is_complex():
            number = held.item()  # Within the mode it would be a symbol.
            with mode, traced.graph.inserting_before(node):
                made = insert_call(traced.graph, _FULL, [], number, dtype=held.dtype, device=torch.device("cpu"))
            node.replace_all_uses_with(made)
            traced.graph.erase_node(node)


def _move(traced: fx.GraphModule, inputs: list[FakeTensor]) -> None:
    """Move every tensor of a graph to the target's device."""
    # The original puts a tensor on a card, which the sandbox hides.
    vars(_late("torch._subclasses.fake_tensor"))["init_gpu_context"] = lambda _: None
    for node in traced.graph.nodes:
        if "device" in node.kwargs:
            node.update_kwarg("device", DEVICE)
        values = node.meta.get("val")
        for value in values if isinstance(values, tuple | list) else [values]:
            if isinstance(value, FakeTensor):
                value.fake_device = DEVICE
    for tensor in inputs:
        tensor.fake_device = DEVICE
    traced.recompile()


def _generate(traced: fx.GraphModule, inputs: list[FakeTensor]) -> str:
    """Return the module that Inductor generates."""
    virtualized = _late("torch._inductor.virtualized").V
    # The original computes a key of an unused cache and would start a process, which the sandbox forbids.
    vars(_late("torch.utils._triton"))["triton_hash_with_backend"] = str
    vars(_late("torch._inductor.lowering"))["use_two_step_variance"] = partial(_is_read_twice, _hints(inputs))
    scan = _late("torch._inductor.ir").Scan
    scan.num_splits = partial(_whole, scan.num_splits)
    reorder_by_reads()
    mode = inputs[0].fake_mode
    _pack_results(traced)
    round_what_is_read_twice(traced)
    settings = {"triton.native_matmul": True, "triton.autotune_at_compile_time": False, "compile_threads": 1}
    with ExitStack() as stack:
        stack.enter_context(_late("torch._inductor.config").patch(settings))
        graph = _late("torch._inductor.graph").GraphLowering(
            traced, example_inputs=inputs, shape_env=mode.shape_env, is_inference=True
        )
        stack.enter_context(virtualized.set_graph_handler(graph))
        stack.enter_context(virtualized.set_debug_handler(_late("torch._inductor.debug").DebugContext()))
        stack.enter_context(virtualized.set_fake_mode(mode))
        stack.enter_context(torch.no_grad())
        graph.run(*inputs)
        text: str = graph.codegen()[0].value
    return text


def _whole(split: Callable[..., tuple[object, int]], **asked: object) -> tuple[object, int]:
    """Return the number of parts of a scan: one, since parts need a workspace that the host sets to zero."""
    return split(**asked)[0], 1


def _pack_results(traced: fx.GraphModule) -> None:
    """Have Inductor write results as the reference does: it pads rows of other tensors."""
    output = traced.graph.output_node()
    given = [*output.args[0]] if isinstance(output.args[0], list | tuple) else [output.args[0]]
    values = [node.meta.get("val") if isinstance(node, fx.Node) else None for node in given]
    output.meta["user_visible_output_idxs"] = [at for at, value in enumerate(values) if isinstance(value, FakeTensor)]
    output.meta["original_output_strides"] = [
        value.stride() if isinstance(value, FakeTensor) else None for value in values
    ]


def _hints(inputs: Sequence[FakeTensor]) -> dict[Any, int]:
    """Return the sizes of tensors at the first shape, by the symbols that stand for them."""
    sizes: list[Any] = [size for tensor in inputs for size in tensor.shape if not isinstance(size, int)]
    return {size.node.expr: size.node.hint for size in sizes if size.node.expr.is_symbol}


class _Sized(Protocol):
    """The used part of Inductor's `TensorBox`."""

    def get_size(self) -> Sequence[Any]: ...


def _is_read_twice(hints: Mapping[Any, int], x: _Sized, axis: object, **_: object) -> bool:
    """True if a variance is the mean of squared deviations: plain sums, for which its elements are read twice.

    Otherwise it is a recurrence of three numbers, which reads them once.
    """
    axes = _late("torch._inductor.lowering")._validate_reduction_axis(x, axis)
    sizes = [size.xreplace(hints) if hasattr(size, "xreplace") else size for size in x.get_size()]
    summed = prod(sizes[place] for place in axes)
    return not getattr(summed, "is_number", True) or int(summed) < FAR_APART


def _draft(name: str, text: str, target: Target) -> InductorKernel:
    """Parse a kernel from the text for Inductor's own compiler."""
    before, _, after = text.partition("@triton_heuristics.")
    decorator, _, function = f"triton_heuristics.{after}".partition(_BOUNDARY)
    function = function.replace(".dtype is tl.", ".dtype == tl.")  # Remainders ask so; only equality is interpreted.
    helpers = before[before.index(_BOUNDARY) :] if _BOUNDARY in before else ""
    halves = ".to(tl.bfloat16)" in function or ".to(tl.float16)" in function
    special: Mapping[str, int] = {}
    if _reads_columns(function):
        decorator = decorator.replace("ReductionHint.DEFAULT", "ReductionHint.OUTER")
        special = {} if _EXTREME.search(function) else COLUMNS
    elif _reads_windows(function):
        special = WINDOWS
    grid, options = _heuristics(decorator, _Products(function.count("tl.dot("), halves=halves), target, special)
    return InductorKernel(name, _BOUNDARY + function, grid, options, helpers)


def _reads_columns(function: str) -> bool:
    """True if most loads of a reduction are of elements that lie side by side along its results, not along its sums.

    Inductor tells them apart by strides that are numbers. With symbols for sizes it would have one result per program,
    whose elements lie far apart, so that most of every memory sector is read in vain.
    """
    found = {axis: {name for name in _FAST[axis].findall(function)} for axis in "xr"}
    columns = rows = 0
    for _, offset in _loads(function):
        read = {part.id[0] for part in ast.walk(offset) if isinstance(part, ast.Name)}
        alone = {part.id for part in terms(offset) if isinstance(part, ast.Name)}
        if read >= {"x", "r"}:  # Others read one element per result, or the same ones for all results.
            columns += bool(alone & found["x"]) and not alone & found["r"]
            rows += bool(alone & found["r"])
    return columns > rows


def _reads_windows(function: str) -> bool:
    """True if most loads of a kernel are of neighbours of one element, so that few can be wider than an element."""
    beside: Counter[str] = Counter()
    loads = 0
    for name, offset in _loads(function):
        numbers = [part for part in map(number_of, terms(offset)) if part is not None]
        beside[name] += sum(numbers) % WIDEST_LOAD > 0
        loads += 1
    return loads >= FEWEST_NEIGHBOURS and 2 * max(beside.values(), default=0) > loads


def _loads(function: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield the pointer and the offset of every load."""
    for node in ast.walk(ast.parse(function)):
        match node:
            case ast.Call(func=func, args=[ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=offset), *_]) if (
                dotted(func) == "tl.load"
            ):
                yield name, offset


@dataclass(frozen=True)
class _Products:
    """Matrix products of a kernel: their number; `halves` is True for 16-bit operands, which Inductor casts first."""

    count: int
    halves: bool


def _heuristics(
    decorator: str, products: _Products, target: Target, special: Mapping[str, int]
) -> tuple[str, dict[str, int]]:
    """Return the choice of Inductor's heuristics, by evaluating its decorator with the last step replaced.

    Special options replace it where it has the same blocks, which are filled, and every processor still has `PROGRAMS`
    programs.
    """
    heuristics = _late("torch._inductor.runtime.triton_heuristics")
    found: dict[str, Any] = {}

    def keep(
        hints: object, configs: object, inductor_meta: Mapping[str, object], **_others: object
    ) -> Callable[..., None]:
        found.update(hints=hints, configs=configs, grid=inductor_meta["grid_type"])
        return lambda _: None

    vars(heuristics)["cached_autotune"] = keep
    eval(decorator, {"triton_heuristics": heuristics, "__file__": "", **vars(_late("torch._inductor.runtime.hints"))})
    choose = partial(_roomiest, products=products) if products.count else _fullest
    choice = choose(found["configs"], found["hints"], target=target)
    options = {**choice.kwargs, "num_warps": choice.num_warps, "num_stages": choice.num_stages}
    hints = {"r0_": 0, **found["hints"]}
    is_alike = options.keys() == special.keys() | {"num_stages"} and hints["r0_"] >= special.get("R0_BLOCK", 0)
    if is_alike and hints["x"] >= PROGRAMS * target.sms * special["XBLOCK"]:
        options |= special
    return found["grid"], options


class _Config(Protocol):
    """The used part of Inductor's `Config`."""

    kwargs: Mapping[str, int]
    num_warps: int
    num_stages: int


def _fullest(configs: Sequence[_Config], hints: Mapping[str, int], target: Target) -> _Config:
    """Return Inductor's first choice, but more than one of the rows that are whole in a tile, where they are short.

    Of the choices for whole rows it is the one with most rows that has at most `REDUCED` elements and leaves every
    processor `PROGRAMS` programs.
    """
    if "r0_" not in hints or configs[0].kwargs.keys() != {"XBLOCK"}:
        return configs[0]
    most = min(REDUCED // hints["r0_"], hints["x"] // (PROGRAMS * target.sms))
    fitting = [config for config in configs if config.kwargs["XBLOCK"] <= most] or configs[:1]
    return max(fitting, key=lambda config: config.kwargs["XBLOCK"])


def _roomiest(configs: Sequence[_Config], hints: Mapping[str, int], products: _Products, target: Target) -> _Config:
    """Return the configuration with the largest tile that certainly fits; the first one if none does.

    Larger tiles load less, because each element is loaded once for a row or a column. A tile fits if its accumulators
    need at most `REGISTERS`, and the operands of all stages, at `WIDEST_BYTES` per element, fit a program's shared
    memory. Float32 products must not exceed `UNROLLED`, and no side may exceed the extent that Inductor expects.
    """

    def fits(config: _Config) -> bool:
        y, x = config.kwargs["YBLOCK"], config.kwargs["XBLOCK"]
        inner = config.kwargs.get("R0_BLOCK", hints.get("r0_", SMALLEST_TILE))
        registers = products.count * y * x / (target.warp_size * config.num_warps)
        shared = config.num_stages * products.count * (y + x) * inner * WIDEST_BYTES
        short = products.halves or registers * inner <= UNROLLED
        inside = all(tile <= max(SMALLEST_TILE, hints[axis]) for axis, tile in (("y", y), ("x", x)))
        return registers <= REGISTERS and shared <= target.shared_block_bytes and inside and short

    fitting = [config for config in configs if fits(config)] or configs[:1]
    return max(fitting, key=lambda config: config.kwargs["YBLOCK"] * config.kwargs["XBLOCK"])


def _late(module: str) -> ModuleType:
    """Import a module of torch that reads `torch.cuda` at its import, so only after `pretend`."""
    return import_module(module)
