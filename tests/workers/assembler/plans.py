"""Bundles around the example kernels, as a trace would give them."""

from collections.abc import Mapping

from workers.protocol import (
    DTYPE_BYTES,
    Allocate,
    Buffer,
    Bundle,
    Input,
    Kernel,
    Launch,
    Number,
    Operator,
    Output,
    Plan,
    Pointer,
    Shape,
    View,
)

RMSNORM = Operator(
    name="rmsnorm",
    entry="rmsnorm",
    reference="def rmsnorm(x, weight): ...",
    inputs=(
        Input(name="x", shape=("M", "N"), dtype="bfloat16"),
        Input(name="weight", shape=("N",), dtype="bfloat16"),
    ),
    outputs=(Output(name="y", dtype="bfloat16"),),
    shapes=({"dims": {"M": 4096, "N": 4096}},),
)


def pointer(buffer: int, extent_bytes: int, dtype: str = "bfloat16") -> Pointer:
    return Pointer.model_validate({"buffer": buffer, "offset_bytes": 0, "extent_bytes": extent_bytes, "dtype": dtype})


def rmsnorm_plan(kernel: Kernel, dims: Mapping[str, int], programs: int | None = None, launches: int = 1) -> Plan:
    """A plan that normalises the rows of `x`, one a program unless said otherwise."""
    rows, columns = dims["M"], dims["N"]
    size, width = rows * columns * DTYPE_BYTES["bfloat16"], columns * DTYPE_BYTES["bfloat16"]
    launch = Launch(
        kernel=kernel.digest,
        grid=(programs or rows, 1, 1),
        arguments=(
            pointer(0, size),
            pointer(1, width),
            pointer(2, size),
            Number(type="i32", value=columns),
            Number(type="fp32", value=1e-6),
        ),
        function="rmsnorm",
        parameters=("x", "weight", "y", "n", "eps"),
        constants={"width": 4096},
        line=12,
    )
    return Plan(
        shape=Shape(dims=dict(dims)),
        buffers=(Buffer(id=0, bytes=size, input=0), Buffer(id=1, bytes=width, input=1), Buffer(id=2, bytes=size)),
        steps=(Allocate(buffer=2), *([launch] * launches)),
        outputs=(View(buffer=2, shape=(rows, columns), strides=(columns, 1), dtype="bfloat16"),),
    )


def bundle_of(kernel: Kernel, *plans: Plan) -> Bundle:
    """A bundle of plans that launch one kernel."""
    return Bundle(target=kernel.target, operator=RMSNORM.digest, kernels={kernel.digest: kernel}, plans=plans)
