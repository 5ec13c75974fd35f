"""Target sheets: what the model, the tracer and prompts need to know of a chip. Pure data, no torch."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Target:
    """One compile target, as its most common card.

    Attributes:
        name: What plans and streams call it, such as `sm_90`.
        vendor: `nvidia` or `amd`.
        card: The card whose figures the sheet gives.
        capability: CUDA compute capability, or (0, 0) on AMD.
        warp_size: Threads a warp.
        sms: Streaming multiprocessors or compute units.
        clock_mhz: Boost clock.
        dram_bytes_per_s: Peak DRAM bandwidth.
        l2_bytes: Size of the L2 cache.
        memory_bytes: Size of the card's memory.
        shared_block_bytes: Most shared memory one program can take.
        shared_sm_bytes: Shared memory of an SM.
        registers_sm: 32-bit registers of an SM.
        threads_sm: Threads resident on an SM.
        blocks_sm: Programs resident on an SM.
        fp32_flops: Peak float32 rate outside the matrix units, per second.
        matrix_flops: Dense bf16 rate of the matrix units, per second.
        source: Where the figures are from.
    """

    name: str
    vendor: Literal["nvidia", "amd"]
    card: str
    capability: tuple[int, int]
    warp_size: int
    sms: int
    clock_mhz: int
    dram_bytes_per_s: float
    l2_bytes: int
    memory_bytes: int
    shared_block_bytes: int
    shared_sm_bytes: int
    registers_sm: int
    threads_sm: int
    blocks_sm: int
    fp32_flops: float
    matrix_flops: float
    source: str

    @property
    def arch(self) -> int | str:
        """The architecture as Triton's `GPUTarget` takes it: 90 for `sm_90`, `gfx942` as it is."""
        return int(self.name.removeprefix("sm_")) if self.vendor == "nvidia" else self.name


_CUDA_GUIDE = "CUDA programming guide, compute capabilities table; card figures from the vendor's data sheet"

TARGETS: dict[str, Target] = {
    sheet.name: sheet
    for sheet in (
        Target(
            "sm_80", "nvidia", "NVIDIA A100-SXM4-80GB", (8, 0), 32, 108, 1410, 2.04e12, 40 * 2**20, 80 * 2**30,
            166912, 167936, 65536, 2048, 32, 19.5e12, 312e12, _CUDA_GUIDE,
        ),
        Target(
            "sm_86", "nvidia", "NVIDIA A10", (8, 6), 32, 72, 1695, 0.6e12, 6 * 2**20, 24 * 2**30,
            101376, 102400, 65536, 1536, 16, 31.2e12, 125e12, _CUDA_GUIDE,
        ),
        Target(
            "sm_89", "nvidia", "NVIDIA L40S", (8, 9), 32, 142, 2520, 0.864e12, 96 * 2**20, 48 * 2**30,
            101376, 102400, 65536, 1536, 24, 91.6e12, 362e12, _CUDA_GUIDE,
        ),
        Target(
            "sm_90", "nvidia", "NVIDIA H200", (9, 0), 32, 132, 1980, 4.8e12, 50 * 2**20, 141 * 10**9,
            232448, 233472, 65536, 2048, 32, 67e12, 989e12, _CUDA_GUIDE,
        ),
        Target(
            "sm_100", "nvidia", "NVIDIA B200", (10, 0), 32, 148, 1965, 8.0e12, 126 * 2**20, 180 * 10**9,
            232448, 233472, 65536, 2048, 32, 75e12, 2250e12, _CUDA_GUIDE,
        ),
        Target(
            "sm_120", "nvidia", "NVIDIA RTX PRO 6000", (12, 0), 32, 188, 2617, 1.79e12, 128 * 2**20, 96 * 2**30,
            101376, 102400, 65536, 1536, 24, 125e12, 500e12, _CUDA_GUIDE,
        ),
        Target(
            "gfx90a", "amd", "AMD Instinct MI250X (one die)", (0, 0), 64, 110, 1700, 1.6e12, 8 * 2**20, 64 * 2**30,
            65536, 65536, 131072, 2048, 32, 23.9e12, 191e12, "vendor's data sheet; CDNA2 ISA guide",
        ),
        Target(
            "gfx942", "amd", "AMD Instinct MI300X", (0, 0), 64, 304, 2100, 5.3e12, 4 * 2**20, 192 * 10**9,
            65536, 65536, 131072, 2048, 32, 163.4e12, 1307e12, "vendor's data sheet; CDNA3 ISA guide",
        ),
    )
}  # fmt: skip
"""Sheets by name. The model predicts with them; the tracer answers `torch.cuda` queries from them."""
