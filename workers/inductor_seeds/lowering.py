"""What TorchInductor makes of a reference, for a target that is not here: texts and numbers, nothing compiled.

Sizes stay symbols, so that one text serves every shape. Matrix products become Triton too (Inductor's native matmul)
in place of calls of a vendor's library.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib import import_module, reload
from types import ModuleType
from typing import Any, Protocol

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.nn.attention import SDPBackend, sdpa_kernel

from workers.inductor_seeds.decomposing import thin_products
from workers.inductor_seeds.extremes import values_of
from workers.inductor_seeds.operations import CONVOLUTION, DECOMPOSITIONS, NAMESPACE
from workers.protocol import Operator, Outcome
from workers.targets import Target
from workers.tracer.fake_device import DEVICE, pretend
from workers.tracer.reference import load_entry
from workers.tracer.refusal import TraceRefused

SMALLEST_HINT = 2
"""Sizes that Inductor is told to expect are at least this: it would treat a size of 1 as always 1."""

REGISTERS = 64
"""Registers a thread, of the 255 that an instruction can address, that the sums of a kernel's products may take. For
sm_90, Triton 3.7 spills at most 4 bytes with that, and up to 728 with 128 (tried with products of float32)."""

WIDEST_BYTES = 4
"""Of an element of a product's operands."""

UNROLLED = 1024
"""Multiplications a thread in one turn of a loop where no matrix unit does them. The compiler writes each of them out:
with 2048 it takes most of the time that a trace may."""

SMALLEST_TILE = 32
"""Extent of the smallest tiles in Inductor's list for products."""

_KERNEL = re.compile(r"async_compile\.triton\('(?P<name>\w+)', '''(?P<text>.*?)'''", re.DOTALL)
_FOREIGN = re.compile(rf"\bextern_kernels\.\w+|(?<!')\btorch\.ops\.(?!{NAMESPACE}\.)[\w.]+|\bcpp_fused\w*")
"""Calls of what is no kernel. Names in quotes only tell where something is from."""
_BOUNDARY = "@triton.jit"
_CACHED = type(cache(len))


@dataclass(frozen=True)
class InductorKernel:
    """One kernel as Inductor wrote it.

    Attributes:
        name: Of the jit function.
        text: The jit function.
        grid: How Inductor derives the grid from extents and blocks, by the name of its rule.
        options: Blocks by parameter, and `num_warps` and `num_stages`: one choice of Inductor's heuristics.
        helpers: Functions of two elements that the jit function folds or scans with, as text.
    """

    name: str
    text: str
    grid: str
    options: Mapping[str, int]
    helpers: str = ""


@dataclass(frozen=True)
class LoweredReference:
    """A reference after Inductor.

    Attributes:
        host: Inductor's `call` function, as text.
        kernels: By name.
    """

    host: str
    kernels: Mapping[str, InductorKernel]


def lower(operator: Operator, target: Target) -> LoweredReference:
    """Have Inductor write Triton. Takes this process over: torch answers for the target from now on.

    Raises:
        Refused: If what Inductor wrote holds something else than Triton kernels.
    """
    pretend(target)
    _forget()
    traced, inputs = _trace(operator)
    text = _generate(traced, inputs)
    found = re.search(r"^    def call\(self, args\):\n(?P<body>(?:^(?: {8}.*)?\n)+)", text, re.MULTILINE)
    if found is None:
        raise TraceRefused(Outcome.TRACE_CRASHED, "TorchInductor's module has no function that launches")
    if foreign := _FOREIGN.search(found["body"]):
        raise TraceRefused(Outcome.FORBIDDEN_OP, f"TorchInductor calls {foreign[0]} for it, which is no Triton kernel")
    drafts = {match["name"]: _draft(match["name"], match["text"], target) for match in _KERNEL.finditer(text)}
    if not drafts and CONVOLUTION not in found["body"]:
        raise TraceRefused(Outcome.FORBIDDEN_OP, "TorchInductor needs no kernel for it")
    return LoweredReference("def call(self, args):\n" + found["body"], drafts)


def _forget() -> None:
    """Drop what torch remembers of the machine, in case the process that this one was forked from has asked before."""
    # It notes functions of `torch.cuda` when it is imported. Those who imported names from it see the new answers too:
    # a module keeps its namespace when it is reloaded.
    reload(_late("torch._dynamo.device_interface"))
    _late("torch._inductor.runtime.hints").DeviceProperties.create.cache_clear()
    for module in ("torch.utils._triton", "torch._inductor.utils"):
        for item in vars(_late(module)).values():
            if isinstance(item, _CACHED):
                item.cache_clear()


def _trace(operator: Operator) -> tuple[fx.GraphModule, list[FakeTensor]]:
    """The reference as a graph over symbolic sizes, on the target's device.

    Traced as if on the CPU, since fake tensors of a device that torch was not built for fail at some operations.
    """
    if operator.backward:
        raise TraceRefused(
            Outcome.FORBIDDEN_OP, "the operator has gradients, and TorchInductor is given its results alone"
        )
    if operator.dimensions != operator.extents:
        raise TraceRefused(Outcome.FORBIDDEN_OP, "a scalar of the operator is a size that no input has")
    named = _late("torch._dynamo.source").ConstantSource
    _late("torch._inductor.lowering")  # Some decompositions, as that of max pooling, take for granted that it is there.
    known = _late("torch._inductor.decomposition").select_decomp_table()
    table = thin_products({**known, **DECOMPOSITIONS})
    entry, scalars = load_entry(operator), [scalar.value for scalar in operator.scalars]
    sizes = ShapeEnv(duck_shape=False, specialize_zero_one=False)
    dims: dict[str | int, Any] = {}
    for name in operator.dimensions:
        hint, source = max(SMALLEST_HINT, operator.shapes[0].dims[name]), named(name)
        symbol = sizes.create_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        dims[name] = sizes.create_symintnode(symbol, hint=hint, source=source)

    def call(*tensors: torch.Tensor) -> tuple[object, ...]:
        results = entry(*tensors, *scalars)
        return tuple(results) if isinstance(results, tuple | list) else (results,)

    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=sizes), torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        inputs: list[Any] = [
            torch.empty([dims.get(extent, extent) for extent in item.shape], dtype=getattr(torch, item.dtype))
            for item in operator.inputs
        ]
        traced = make_fx(call, decomposition_table=table)(*inputs)
    for name in operator.dimensions:
        if dims[name].node.expr.is_number and len(set(values_of(operator, name))) > 1:
            reason = (
                f"its reference computes with the size '{name}' as a number of Python's: a draft would hold for one"
            )
            raise TraceRefused(Outcome.FORBIDDEN_OP, reason)
    _move(traced, inputs)
    return traced, inputs


def _move(traced: fx.GraphModule, inputs: list[FakeTensor]) -> None:
    """Say of every tensor of a graph that it lives on the target."""
    # It puts a tensor on the card, which the jail keeps out of sight of builds of torch that could.
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
    """The module that Inductor writes."""
    virtualized = _late("torch._inductor.virtualized").V
    # It is the key of a cache that is not used here, and would start a process, which the jail forbids.
    vars(_late("torch.utils._triton"))["triton_hash_with_backend"] = str
    # A variance is always a mean, then the mean of squared deviations: plain sums, and no recurrence of three numbers.
    vars(_late("torch._inductor.lowering"))["use_two_step_variance"] = lambda *_, **__: True
    mode = inputs[0].fake_mode
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


def _draft(name: str, text: str, target: Target) -> InductorKernel:
    """A kernel out of the text that Inductor would hand to its own compiler."""
    before, _, after = text.partition("@triton_heuristics.")
    decorator, _, function = f"triton_heuristics.{after}".partition(_BOUNDARY)
    helpers = before[before.index(_BOUNDARY) :] if _BOUNDARY in before else ""
    halves = ".to(tl.bfloat16)" in function or ".to(tl.float16)" in function
    grid, options = _heuristics(decorator, _Products(function.count("tl.dot("), halves=halves), target)
    return InductorKernel(name, _BOUNDARY + function, grid, options, helpers)


@dataclass(frozen=True)
class _Products:
    """How many matrix products a kernel adds up, and whether of 16-bit operands, which Inductor casts right before."""

    count: int
    halves: bool


def _heuristics(decorator: str, products: _Products, target: Target) -> tuple[str, dict[str, int]]:
    """What Inductor's heuristics choose: evaluates its decorator with its last step replaced."""
    heuristics = _late("torch._inductor.runtime.triton_heuristics")
    found: dict[str, Any] = {}

    def keep(
        hints: object, configs: object, inductor_meta: Mapping[str, object], **_others: object
    ) -> Callable[..., None]:
        found.update(hints=hints, configs=configs, grid=inductor_meta["grid_type"])
        return lambda _: None

    vars(heuristics)["cached_autotune"] = keep
    eval(decorator, {"triton_heuristics": heuristics, "__file__": "", **vars(_late("torch._inductor.runtime.hints"))})
    choice = _roomiest(found["configs"], found["hints"], products, target) if products.count else found["configs"][0]
    return found["grid"], {**choice.kwargs, "num_warps": choice.num_warps, "num_stages": choice.num_stages}


class _Config(Protocol):
    """Of Inductor's `Config` what is used here."""

    kwargs: Mapping[str, int]
    num_warps: int
    num_stages: int


def _roomiest(configs: Sequence[_Config], hints: Mapping[str, int], products: _Products, target: Target) -> _Config:
    """The configuration with the largest tile that surely fits; the first where none does.

    Each element of a tile is loaded once for a row or a column of it: the larger the tile, the less is loaded. It fits
    if its sums take no more than `REGISTERS`, all stages' operands at `WIDEST_BYTES` an element no more than the shared
    memory of a program, its products of float32, if it has any, no more than `UNROLLED`, and no side reaches beyond the
    extent that Inductor expects.
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
    """A module around Inductor: they note what `torch.cuda` answers when they are imported, so after the pretence."""
    return import_module(module)
