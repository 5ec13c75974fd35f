"""Runs the kernels in Triton's interpreter on host memory; needs TRITON_INTERPRET=1 before it starts.

`python interpreted.py FILE` writes a dictionary of tensors.
"""

import sys

import torch
import triton.language as tl

from workers.device_kernels import kernels

BLOCK = 256
COUNT = 8 * BLOCK * 10 + 5
"""Elements: ten programs and a bit, the last vector incomplete."""
ROOM = 64
"""Elements behind them that nobody may touch."""
SEEDS = (1, 2**63 + 5)
LONG_AGO = -(2**31) - 64
"""What is left of a row that ended farther back than 32 bits count, as programs of a far larger row's grid see it."""


def blank(dtype: torch.dtype, count: int = COUNT) -> torch.Tensor:
    return torch.zeros(count + ROOM, dtype=dtype)


def table(rows: list[tuple[int, ...]]) -> torch.Tensor:
    signed = [[word - 2**64 if word >= 2**63 else word for word in row] for row in rows]
    return torch.tensor(signed, dtype=torch.int64)


def fill(kernel: object, targets: list[torch.Tensor], seeds: tuple[int, ...], *arguments: object) -> None:
    rows = table([(target.data_ptr(), seed) for target, seed in zip(targets, seeds, strict=True)])
    programs = -(-COUNT // (8 * BLOCK))
    kernel[(programs, len(targets))](rows, COUNT, *arguments, BLOCK)


def floats() -> dict[str, torch.Tensor]:
    found = {"normal": blank(torch.float32), "other_seed": blank(torch.float32), "again": blank(torch.float32)}
    fill(kernels.fill_floats, list(found.values()), (*SEEDS, SEEDS[0]), 1, -1e30, 1e30, tl.float32)
    for name, arguments in {"clamped": (1, -0.5, 2.0), "uniform": (0, 2.0, 5.0)}.items():
        found[name] = blank(torch.float32)
        fill(kernels.fill_floats, [found[name]], SEEDS[:1], *arguments, tl.float32)
    for seed in range(10):
        found[f"seed_{seed}"] = blank(torch.float32)
        fill(kernels.fill_floats, [found[f"seed_{seed}"]], (seed + 100,), 1, -1e30, 1e30, tl.float32)
    found["half"] = blank(torch.float16)
    fill(kernels.fill_floats, [found["half"]], SEEDS[:1], 1, -1e30, 1e30, tl.float16)
    return found


def integers() -> dict[str, torch.Tensor]:
    found = {"int64": blank(torch.int64), "int8": blank(torch.int8)}
    fill(kernels.fill_integers, [found["int64"]], SEEDS[:1], -3, 11, tl.int64)
    fill(kernels.fill_integers, [found["int8"]], SEEDS[:1], 0, 2, tl.int8)
    return found


PLACED = {
    "sorted": (0, 5, 3, 40),
    "sorted_dense": (0, 100, 0, 7),
    "unique": (1, 9, 3, 31),
    "permutation": (1, 9, 0, 9),
    "one_permutation": (1, COUNT, 0, COUNT),
    "offsets": (2, 9, 0, 50),
    "offsets_of_few": (2, 9, 0, 3),
    "offsets_of_none": (2, 9, 0, 0),
    "one_segment": (2, 2, 0, 50),
    "ends": (3, 9, 0, 50),
    "counts": (4, 9, 0, 50),
    "starts": (5, 9, 0, 50),
}
"""Kind, columns, smallest value and number of values of ordered contents."""


def placed() -> dict[str, torch.Tensor]:
    found = {}
    for name, arguments in PLACED.items():
        found[name], found[f"{name} again"] = blank(torch.int64), blank(torch.int64)
        kind, columns, low, among = arguments
        for target, seed in ((found[name], SEEDS[1]), (found[f"{name} again"], SEEDS[0])):
            rows = table([(target.data_ptr(), seed)])
            programs = -(-COUNT // (8 * BLOCK))
            kernels.place_integers[(programs, 1)](rows, COUNT, 8 * columns + kind, low, among, tl.int64, BLOCK)
    return found


def ranges() -> dict[str, torch.Tensor]:
    memory = blank(torch.uint8, 1024)
    base = memory.data_ptr()
    rows = table([(base, 17), (base + 256, 300), (base + 1024, 1), (base + 700, LONG_AGO)])
    kernels.poison[(4, 4)](rows, 128)
    return {"poisoned": memory}


def unpoisoned() -> dict[str, torch.Tensor]:
    """Words that are not as `poison` leaves them, with these bytes changed; what lies behind is nobody's."""
    memory = torch.full((8 * 1000,), 0xFF, dtype=torch.uint8)
    found = {}
    changes = {"none": [], "two words": [0, 7, 8 * 900 + 3], "ends": [8 * 333 - 1], "behind": [8 * 333]}
    for name, changed in changes.items():
        copy, counter = memory.clone(), torch.zeros(1, dtype=torch.int64)
        copy[changed] = 0xFE
        rows = table([(copy.data_ptr(), 333), (copy.data_ptr() + 8 * 600, 400), (copy.data_ptr() + 8 * 333, LONG_AGO)])
        kernels.count_unpoisoned[(4, 3)](rows, counter, 128)
        found[f"unpoisoned_{name}"] = counter
    return found


def zones() -> dict[str, torch.Tensor]:
    memory = blank(torch.uint8, 4096)
    shifted = blank(torch.uint8, 4096)
    kernels.fill_zones[(3, 2)](table([(memory.data_ptr() + 3, 1003, 701), (memory.data_ptr() + 2048, 3048, 5)]), 9, 256)
    kernels.fill_zones[(3, 1)](table([(shifted.data_ptr(), 1203, 100)]), 9, 256)
    rows = table([(memory.data_ptr() + 3, 1003, 701)])
    counts = {}
    for name, damaged in {"clean": (), "damaged": (3, 500, 703), "outside": (2, 704)}.items():
        copy = memory.clone()
        copy[list(damaged)] += 1
        counts[name] = torch.zeros(1, dtype=torch.int64)
        kernels.count_zones[(3, 1)](
            rows + torch.tensor([copy.data_ptr() - memory.data_ptr(), 0, 0]), 9, counts[name], 256
        )
    other = torch.zeros(1, dtype=torch.int64)
    kernels.count_zones[(3, 1)](rows, 10, other, 256)
    return {"zones": memory, "zones_moved": shifted, **counts, "another_seed": other}


def copies() -> dict[str, torch.Tensor]:
    """Targets after copies of so many words read and written."""
    found = {}
    for read, written in ((96, 96), (512, 32), (32, 512), (512, 0)):
        source, target = torch.arange(1, 513, dtype=torch.int32), torch.full((512,), -1, dtype=torch.int32)
        kernels.copy[(-(-max(read, written) // 64),)](source, read, target, written, 64)
        found[f"copied_{read}_{written}"] = target
    return found


def flushed() -> torch.Tensor:
    """Memory of four programs after a flush of three."""
    memory = torch.full((4 * 4,), 5, dtype=torch.int32)
    kernels.flush[(3,)](memory, 4)
    return memory


if __name__ == "__main__":
    found = floats() | integers() | placed() | ranges() | unpoisoned() | zones() | copies()
    torch.save(found | {"flushed": flushed()}, sys.argv[1])
