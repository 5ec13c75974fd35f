"""Sheets of real cards, from published readings of their drivers and the vendor's data sheets."""

from workers.protocol import CardSheet


def sheet(
    name: str,
    capability: str,
    sms: int,
    clocks: tuple[int | None, int | None],
    bus_bits: int | None,
    memory_gib: float,
    l2_mib: int,
    shared: tuple[int, int],
    threads_sm: int,
) -> CardSheet:
    """A card's sheet, with 65,536 registers per SM as all cards since compute capability 8.0 have."""
    return CardSheet(
        name=name,
        capability=capability,
        sms=sms,
        clock_mhz=clocks[0],
        memory_clock_mhz=clocks[1],
        bus_bits=bus_bits,
        memory_bytes=int(memory_gib * 2**30),
        l2_bytes=l2_mib * 2**20,
        shared_block_bytes=shared[0],
        shared_sm_bytes=shared[1],
        registers_sm=65536,
        threads_sm=threads_sm,
    )


LARGE, MIDDLE, SMALL = (232448, 233472), (166912, 167936), (101376, 102400)
"""Shared memory per program and per SM."""
A100_40 = sheet("NVIDIA A100-SXM4-40GB", "8.0", 108, (1410, 1215), 5120, 39.4, 40, MIDDLE, 2048)
A100_80 = sheet("NVIDIA A100-SXM4-80GB", "8.0", 108, (1410, 1593), 5120, 79.3, 40, MIDDLE, 2048)
A10 = sheet("NVIDIA A10", "8.6", 72, (1695, 6251), 384, 22.1, 6, SMALL, 1536)
RTX3080 = sheet("NVIDIA GeForce RTX 3080", "8.6", 68, (2100, 9501), 320, 9.8, 5, SMALL, 1536)
RTX3080_12 = sheet("NVIDIA GeForce RTX 3080", "8.6", 70, (2100, 9501), 384, 11.8, 6, SMALL, 1536)
RTX3090 = sheet("NVIDIA GeForce RTX 3090", "8.6", 82, (2100, 9751), 384, 23.7, 6, SMALL, 1536)
RTX4090 = sheet("NVIDIA GeForce RTX 4090", "8.9", 128, (3120, 10501), 384, 23.5, 72, SMALL, 1536)
L4 = sheet("NVIDIA L4", "8.9", 58, (2040, 6251), 192, 22.0, 48, SMALL, 1536)
L40S = sheet("NVIDIA L40S", "8.9", 142, (2520, 9001), 384, 44.4, 96, SMALL, 1536)
H100 = sheet("NVIDIA H100 80GB HBM3", "9.0", 132, (1980, 2619), 5120, 79.1, 50, LARGE, 2048)
H200 = sheet("NVIDIA H200", "9.0", 132, (1980, 3201), 6144, 139.8, 50, LARGE, 2048)
B200 = sheet("NVIDIA B200", "10.0", 148, (1965, 3996), 8192, 178.4, 126, LARGE, 2048)
RTX5090 = sheet("NVIDIA GeForce RTX 5090", "12.0", 170, (3090, 14001), 512, 31.4, 96, SMALL, 1536)
X100 = sheet("NVIDIA X100", "13.0", 200, (2400, 4000), 8192, 200.0, 200, LARGE, 2048)
"""A card that is newer than this release: made up."""
