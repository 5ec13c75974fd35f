"""Plain values that the service's tests start from."""

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime

from archive.records import AxisRecord, CandidateRecord, CandidateState, EliteRecord, SearchRecord, SearchState
from workers.protocol import (
    Allocate,
    Buffer,
    Bundle,
    Device,
    Graph,
    InputRef,
    Kernel,
    Launch,
    Operator,
    Outcome,
    Plan,
    Pointer,
    Provenance,
    Readings,
    Report,
    Shape,
    ShapeResult,
    ShapeRole,
    View,
)

TUNABLE = """
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def double(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256, num_warps=4, num_stages=2)
    return y
"""
"""A kernel with parameters to tune."""

REFERENCE = "def double(x):\n    return x * 2\n"
SEED = "import torch\n\n\ndef double(x):\n    return torch.empty_like(x)\n"
SHAPES = (
    Shape(dims={"N": 4}, role=ShapeRole.BOUNDARY),
    Shape(dims={"N": 1024}, role=ShapeRole.BENCHMARK, weight=1.0),
    Shape(dims={"N": 4096}, role=ShapeRole.BENCHMARK, weight=3.0),
)
OPERATOR = Operator.model_validate(  # `SHAPES` are all that it is judged at: its range ends at the smallest of them.
    {
        "name": "double",
        "entry": "double",
        "reference": REFERENCE,
        "inputs": [{"name": "x", "shape": ["N"], "dtype": "float32"}],
        "outputs": [{"name": "y", "dtype": "float32"}],
        "shapes": [{"dims": {"N": 1024}}, {"dims": {"N": 4096}, "weight": 3.0}],
        "ranges": {"N": [4, 4]},
        "seeds": [SEED],
    }
)
DEVICE = "model:sm_90"
SEARCH_ID = "0190a000-0000-7000-8000-000000000001"
"""Where tests need ids that REST takes."""
CANDIDATE_ID = "0190a000-0000-7000-8000-000000000002"
CUBIN = "c" * 64
"""Digest of all machine code."""
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def search(**changes: object) -> SearchRecord:
    """A running search over `OPERATOR`."""
    values: dict[str, object] = {
        "id": "search-1",
        "operator": OPERATOR.digest,
        "operator_name": OPERATOR.name,
        "devices": (DEVICE,),
        "emitters": ("tune", "rewrite"),
        "axes": (AxisRecord("num_warps", 6),),
        "axes_version": 1,
        "evaluations": 10,
        "seed": 0,
        "shapes": tuple(shape.model_dump(mode="json") for shape in SHAPES),
        "graphs": (),
        "state": SearchState.RUNNING,
        "reason": "",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return SearchRecord(**{**values, **changes})  # type: ignore[arg-type]


def candidate(**changes: object) -> CandidateRecord:
    """A queued candidate of `search()`."""
    values: dict[str, object] = {
        "id": "candidate-1",
        "search": "search-1",
        "ordinal": 1,
        "emitter": "tune",
        "source": SEED,
        "digest": "d" * 64,
        "trace_key": "k" * 64,
        "parents": (),
        "note": "num_warps 4 -> 8",
        "state": CandidateState.QUEUED,
        "outcome": None,
        "reason": "",
        "line": None,
        "created_at": NOW,
    }
    return CandidateRecord(**{**values, **changes})  # type: ignore[arg-type]


def elite(**changes: object) -> EliteRecord:
    """The holder of cell 2."""
    values: dict[str, object] = {
        "search": "search-1",
        "device": DEVICE,
        "axes_version": 1,
        "cell": 2,
        "coordinates": {"num_warps": {"value": 4.0, "bin": 2}},
        "candidate": "candidate-1",
        "variant": 0,
        "bundle": "b" * 64,
        "job": "job-1",
        "emitter": "tune",
        "objective": 1.25,
        "low": 1.25,
        "mid": 1.25,
        "high": 1.25,
        "revision": 1,
        "placed_at": NOW,
    }
    return EliteRecord(**{**values, **changes})  # type: ignore[arg-type]


def report(times_us: dict[str, float], **changes: object) -> Report:
    """A correct report with the given predicted times."""
    values: dict[str, object] = {
        "job": "job-1",
        "search": "search-1",
        "candidate": "candidate-1",
        "variant": 0,
        "bundle": "b" * 64,
        "device": Device.parse(DEVICE),
        "worker": "w",
        "outcome": Outcome.CORRECT,
        "provenance": Provenance.PREDICTED,
        "shapes": tuple(
            ShapeResult(shape=shape, mid_us=time, low_us=time, high_us=time) for shape, time in times_us.items()
        ),
    }
    return Report(**{**values, **changes})  # type: ignore[arg-type]


def graph(shape: Shape) -> Graph:
    """A reference that gives back its input, at a shape with an `N`."""
    return Graph(
        shape=shape,
        nodes=(),
        outputs=(InputRef(input=0),),
        output_shapes=((shape.dims["N"],),),
        output_dtypes=("float32",),
    )


def bundle(grid: int = 1) -> Bundle:
    """An assembled bundle whose identity depends on `grid`."""
    kernel = Kernel(language="ptx", assembly=".visible .entry kernel()", target="sm_90", num_warps=4)
    plans = tuple(_plan(shape, kernel.digest, grid) for shape in SHAPES)
    return Bundle(
        target="sm_90",
        operator=OPERATOR.digest,
        kernels={kernel.digest: kernel},
        plans=plans,
        cubins={kernel.digest: CUBIN},
    )


def bundle_from(source: str) -> Bundle:
    """The bundle of a source: another one for each."""
    return bundle(1 + zlib.crc32(source.encode()) % 2**30)


def widened(bundle: Bundle, shapes: Sequence[Shape]) -> Bundle:
    """A bundle with plans for exactly these shapes: its own where it has one, otherwise one that launches the same."""
    own = {plan.shape.key: plan for plan in bundle.plans}
    (launch,) = bundle.plans[0].launches
    plans = tuple(own.get(shape.key) or _plan(shape, launch.kernel, launch.grid[0]) for shape in shapes)
    return bundle.restricted(plans)


def readings(num_warps: int = 4) -> Readings:
    """Readings of one plan."""
    return Readings(
        launches=1,
        programs=1024,
        programs_per_sm=7.8,
        num_warps=num_warps,
        registers=32,
        spill_bytes=0,
        shared_bytes=0,
        occupancy=1.0,
        load_width_bytes=16,
        memory_path="plain",
        tensor_core="none",
        bytes_required=8192,
        persistent=False,
    )


def _plan(shape: Shape, kernel: str, grid: int) -> Plan:
    size = shape.dims["N"]
    pointers = tuple(Pointer(buffer=i, offset_bytes=0, extent_bytes=4 * size, dtype="float32") for i in (0, 1))
    return Plan(
        shape=shape,
        buffers=(Buffer(id=0, bytes=4 * size, input=0), Buffer(id=1, bytes=4 * size)),
        steps=(
            Allocate(buffer=1),
            Launch(kernel=kernel, grid=(grid, 1, 1), arguments=pointers, function="double_kernel"),
        ),
        outputs=(View(buffer=1, shape=(size,), strides=(1,), dtype="float32"),),
    )
