"""Target sheets: what the model, the tracer and prompts need to know of a chip. Pure data, no torch.

A target's own sheet gives the figures of its most common card by the data sheet; times are predicted with it. The
sheet of a real card (`of_card`) gives theoretical peaks at the highest clocks: a time below them is refused
(`below_floor`).
"""

from dataclasses import dataclass, replace
from math import inf, isinf
from typing import Literal

from workers.protocol import CardSheet


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

    def of_card(self, sheet: CardSheet) -> "Target":
        """Return this target with the figures of one card: its sizes, and its peaks at the highest clocks.

        A peak is infinite where the driver tells too little, so that no time is refused for it.
        """
        hertz = inf if sheet.clock_mhz is None else sheet.clock_mhz * 1e6
        rates = SM_RATES.get(self.name, FASTEST_SM)
        return replace(
            self,
            card=sheet.name,
            sms=sheet.sms,
            clock_mhz=sheet.clock_mhz or self.clock_mhz,
            dram_bytes_per_s=_dram_peak(sheet),
            l2_bytes=sheet.l2_bytes,
            memory_bytes=sheet.memory_bytes,
            shared_block_bytes=sheet.shared_block_bytes,
            shared_sm_bytes=sheet.shared_sm_bytes,
            registers_sm=sheet.registers_sm,
            threads_sm=sheet.threads_sm,
            fp32_flops=sheet.sms * rates.fp32 * hertz,
            matrix_flops=sheet.sms * rates.matrix * hertz,
            source="the card's driver; rates per SM and clock as in workers/targets.py",
        )


@dataclass(frozen=True)
class SmRates:
    """Floating-point operations per SM and clock; a fused multiply-add is two.

    Attributes:
        fp32: Float32 outside the matrix units: two per core (CUDA programming guide, arithmetic instructions).
        matrix: Dense 16-bit products in the matrix units with the narrowest sums that they offer, which on GeForce
            cards are twice as fast as float32 sums. Values of 8 bits are twice as fast, TF32 half as fast.
    """

    fp32: int
    matrix: int


SM_RATES = {
    "sm_80": SmRates(128, 2048),
    "sm_86": SmRates(256, 1024),
    "sm_87": SmRates(256, 2048),
    "sm_89": SmRates(256, 1024),
    "sm_90": SmRates(256, 4096),
    "sm_100": SmRates(256, 8192),
    "sm_103": SmRates(256, 8192),
    "sm_110": SmRates(256, 8192),
    "sm_120": SmRates(256, 1024),
    "sm_121": SmRates(256, 1024),
}
"""Rates by target. NVIDIA's papers on the A100, GA102, AD102, H100 and RTX Blackwell architectures state operations per
SM and clock. The others follow from the vendor's dense figures divided by SMs and boost clock: B200 2.25e15 / (148 x
1.85e9), Orin 4.25e13 / (16 x 1.3e9), Thor 2.6e14 / (20 x 1.57e9) and GB10 1.25e14 / (48 x 2.5e9) for 16 bits."""
FASTEST_SM = SmRates(max(rate.fp32 for rate in SM_RATES.values()), max(rate.matrix for rate in SM_RATES.values()))
"""Rates of an architecture without an entry: the highest known ones, so that they refuse no honest kernel."""
TRANSFERS_PER_CLOCK = 2
"""Transfers per pin and clock of the memory, as the driver counts clocks: memory with more per clock is reported at a
multiple of its clock (`triton.testing.get_dram_gbps` computes the same)."""


def _dram_peak(sheet: CardSheet) -> float:
    if sheet.memory_clock_mhz is None or sheet.bus_bits is None:
        return inf
    return TRANSFERS_PER_CLOCK * sheet.memory_clock_mhz * 1e6 * sheet.bus_bits / 8


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
            "sm_87", "nvidia", "Jetson AGX Orin 64GB", (8, 7), 32, 16, 1300, 0.2048e12, 4 * 2**20, 64 * 2**30,
            166912, 167936, 65536, 1536, 16, 5.3e12, 42.5e12, _CUDA_GUIDE,
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
            "sm_103", "nvidia", "NVIDIA B300", (10, 3), 32, 148, 1920, 8.0e12, 126 * 2**20, 288 * 10**9,
            232448, 233472, 65536, 2048, 32, 75e12, 2250e12, _CUDA_GUIDE,
        ),
        Target(
            "sm_110", "nvidia", "Jetson AGX Thor", (11, 0), 32, 20, 1575, 0.273e12, 32 * 2**20, 128 * 2**30,
            232448, 233472, 65536, 1536, 24, 8.06e12, 258e12, _CUDA_GUIDE,
        ),
        Target(
            "sm_120", "nvidia", "NVIDIA RTX PRO 6000", (12, 0), 32, 188, 2617, 1.79e12, 128 * 2**20, 96 * 2**30,
            101376, 102400, 65536, 1536, 24, 125e12, 500e12, _CUDA_GUIDE,
        ),
        Target(
            "sm_121", "nvidia", "NVIDIA GB10", (12, 1), 32, 48, 2418, 0.273e12, 24 * 2**20, 128 * 2**30,
            101376, 102400, 65536, 1536, 24, 29.7e12, 125e12, _CUDA_GUIDE,
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


def shown_figures(target: str, card: CardSheet | None) -> Target:
    """Return the figures to show for a target: those of a card if it is known.

    A peak that the card's driver does not tell is that of the target's own sheet. Use them for people and models only:
    no verdict may rest on them.
    """
    own = TARGETS[target]
    if card is None:
        return own
    real = own.of_card(card)
    unknown = [name for name in ("dram_bytes_per_s", "fp32_flops", "matrix_flops") if isinf(getattr(real, name))]
    return replace(real, **{name: getattr(own, name) for name in unknown})
