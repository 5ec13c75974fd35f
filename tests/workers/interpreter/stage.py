"""Helper that runs one kernel in the interpreter, inside the real sandbox, with a plan made by hand."""

from dataclasses import dataclass
from functools import cache

import torch
from triton.runtime.jit import MockTensor

from workers import sandbox
from workers.interpreter import InterpretReply, InterpretRequest, execute, pack, unpack
from workers.interpreter.extract import extract_module
from workers.interpreter.memory import TILE_BYTES
from workers.interpreter.message import MeteredTraffic
from workers.protocol import Allocate, Buffer, Kernel, Launch, Number, Plan, Pointer, Shape, View
from workers.targets import TARGETS
from workers.tracer.compiler import Compiler, rehearse
from workers.tracer.fake_device import drive

HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
KERNEL = "0" * 64
LIMITS = sandbox.SandboxLimits(wall_s=60.0, cpu_s=60.0)
BODY = """
@triton.jit
def helper(x, n):
    if n == 0:
        return x
    return helper(x + 1, n - 1)


@triton.jit
def kernel(a0, a1, FLAG: tl.constexpr, SIZE: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, 4)
    x = tl.load(a0 + i)
    {}
    tl.store(a1 + i, y)
"""
X = torch.tensor([0.0, 1.0, 2.0, 3.0])


@dataclass(frozen=True)
class Out:
    """An output of the kernel: allocated, poisoned."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32


@dataclass
class Run:
    """A reply: its header and, if it finished, outputs and later inputs by draw."""

    reply: InterpretReply
    outputs: list[list[torch.Tensor]]
    inputs_after: list[list[bytes]]

    @property
    def only(self) -> torch.Tensor:
        assert self.reply.outcome is None, self.reply
        return self.outputs[0][0]


def interpret_body(body: str) -> torch.Tensor:
    """Run a body of `BODY` on `X`."""
    return interpret(BODY.format(body), X, Out((4,)), FLAG=True, SIZE=3).only


def interpret_compiled(source: str, *arguments, **constants) -> Run:
    """Run `kernel` of the source as on a device: compile it, then compare it with the compiler's record."""
    plan = _plan(arguments, (1,), "kernel", constants)
    kernel = _compiled(HEADER + source, plan)
    return interpret(source, *arguments, assembly=kernel, **constants)


@cache
def _rehearse() -> None:
    """Start the assembler that Triton asks for its version, which a sandbox forbids."""
    rehearse(TARGETS["sm_90"])


def _compiled(source: str, plan: Plan) -> Kernel:
    def compiled(request: bytes) -> bytes:
        Compiler(TARGETS["sm_90"]).install()
        drive(TARGETS["sm_90"])
        (launch,) = plan.launches
        given = zip(launch.parameters, launch.arguments, strict=True)
        passed = {
            name: item.value if isinstance(item, Number) else MockTensor(getattr(torch, item.dtype))
            for name, item in given
        }
        kernel = extract_module(source).namespace[launch.function]
        return kernel.run(grid=(1,), warmup=True, **launch.constants, **passed).kernel.model_dump_json().encode()

    _rehearse()
    result = sandbox.run(compiled, b"", LIMITS)
    assert result.ending is sandbox.SandboxEnding.RETURNED, result.detail
    return Kernel.model_validate_json(result.reply)


def interpret(
    source: str, *arguments, grid=(1,), function="kernel", target="sm_90", draws=None, assembly="", times=1, **constants
) -> Run:
    """Run `function` of the source; tensors and `Out`s become buffers, numbers scalars, keywords constants.

    With `assembly`, that is what the kernel is taken to be compiled to. Where it is a whole `Kernel`, the source must
    give that when it is compiled. With `times`, as many plans are executed.

    With `draws`, a list of argument lists, tensors come from there and `arguments` only describe them.
    """
    tensors = [item for item in arguments if isinstance(item, torch.Tensor)]
    is_compiled = isinstance(assembly, Kernel)
    kernel = assembly if is_compiled else Kernel(language="ptx", assembly=assembly, target=target, num_warps=4)
    digest = kernel.digest if is_compiled else KERNEL
    plan = _plan(arguments, grid, function, constants, digest)
    every = draws or [tensors]
    parts = [_bytes(tensor) for draw in every for tensor in draw]
    request = InterpretRequest(
        source=source if "import triton" in source else HEADER + source,
        target=target,
        input_names=tuple(f"x{index}" for index in range(len(tensors))),
        plans=(plan,) * times,
        draws=(len(every),) * times,
        launched=(plan,) if is_compiled else (),
        kernels={digest: kernel} if assembly else {},
    )
    result = sandbox.run(execute, pack(request, parts * times), LIMITS)
    assert result.ending is sandbox.SandboxEnding.RETURNED, result.detail
    reply, blobs = unpack(result.reply, InterpretReply)
    outs = [item for item in arguments if isinstance(item, Out)]
    step = len(outs) + len(tensors)
    rows = [blobs[start : start + step] for start in range(0, len(blobs), step)]
    outputs = [[_tensor(blob, out) for blob, out in zip(row, outs, strict=False)] for row in rows]
    return Run(reply, outputs, [[bytes(blob) for blob in row[len(outs) :]] for row in rows])


def sample(source: str, *arguments, grid=(1,), sample_seed="", **constants) -> MeteredTraffic:
    """Estimate the work of one launch of `kernel` from a few of its programs; inputs repeat bytes of 1."""
    inputs = sum(isinstance(item, torch.Tensor) for item in arguments)
    request = InterpretRequest(
        source=HEADER + source,
        target="sm_90",
        input_names=tuple(f"x{index}" for index in range(inputs)),
        plans=(),
        draws=(),
        sampled=(_plan(arguments, grid, "kernel", constants),),
        sample_seed=sample_seed,
    )
    result = sandbox.run(execute, pack(request, [bytes([1]) * TILE_BYTES] * inputs), LIMITS)
    assert result.ending is sandbox.SandboxEnding.RETURNED, result.detail
    reply, _ = unpack(result.reply, InterpretReply)
    (launches,) = reply.sampled
    assert launches is not None, reply
    (launch,) = launches
    return launch


def _plan(arguments, grid, function, constants, digest=KERNEL) -> Plan:
    buffers, passed, names, outputs = [], [], [], []
    count = 0
    for position, item in enumerate(arguments):
        names.append(f"a{position}")
        if isinstance(item, (torch.Tensor, Out)):
            is_input = isinstance(item, torch.Tensor)
            size = torch.Size(item.shape).numel() * item.dtype.itemsize
            dtype = str(item.dtype).removeprefix("torch.")
            buffers.append(Buffer(id=len(buffers), bytes=size, input=count if is_input else None))
            count += is_input
            passed.append(Pointer(buffer=len(buffers) - 1, offset_bytes=0, extent_bytes=size, dtype=dtype))
            if not is_input:
                strides = torch.empty(item.shape, device="meta").stride()
                outputs.append(View(buffer=len(buffers) - 1, shape=item.shape, strides=strides, dtype=dtype))
        else:
            passed.append(Number(type="fp32" if isinstance(item, float) else "i32", value=item))
    launch = Launch(
        kernel=digest,
        grid=(*grid, 1, 1)[:3],
        arguments=tuple(passed),
        function=function,
        parameters=tuple(names),
        constants=constants,
        line=1,
    )
    allocations = [Allocate(buffer=buffer.id) for buffer in buffers if buffer.input is None]
    return Plan(
        shape=Shape(dims={"N": 1}), buffers=tuple(buffers), steps=(*allocations, launch), outputs=tuple(outputs)
    )


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _tensor(blob, out: Out) -> torch.Tensor:
    return torch.frombuffer(bytearray(blob), dtype=torch.uint8).view(out.dtype).reshape(out.shape)
