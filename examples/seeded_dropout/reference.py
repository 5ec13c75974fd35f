"""Dropout of one half, with the random numbers of a seed: Philox (Salmon et al., 2011) as `tl.randint` has it."""

import torch

KEY_A, KEY_B = 0x9E3779B9, 0xBB67AE85
ROUND_A, ROUND_B = 0xD2511F53, 0xCD9E8D57
WORD = 0xFFFFFFFF


def product(a, b):
    """Return the high and the low word of the 64 bits of a product of 32-bit words, in parts of 16 bits."""
    high, low = a >> 16, a & 0xFFFF
    upper, lower = high * b, low * b
    total = lower + ((upper & 0xFFFF) << 16)
    return (upper >> 16) + (total >> 32), total & WORD


def philox(seed, offset):
    """Return the first of four random words per offset: Philox 4x32 with ten rounds, as tl.randint."""
    k0, k1 = seed & WORD, (seed >> 32) & WORD
    c0, c1, c2, c3 = offset & WORD, torch.zeros_like(offset), torch.zeros_like(offset), torch.zeros_like(offset)
    for _ in range(10):
        high_b, low_b = product(c2, ROUND_B)
        high_a, low_a = product(c0, ROUND_A)
        c0, c2 = high_b ^ c1 ^ k0, high_a ^ c3 ^ k1
        c1, c3 = low_b, low_a
        k0, k1 = (k0 + KEY_A) & WORD, (k1 + KEY_B) & WORD
    return c0


def seeded_dropout(x, seed):
    """Keep the elements whose random word is in the upper half, twice as large; compare words, not floats."""
    offset = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    kept = philox(seed, offset) >= 2**31
    return torch.where(kept, x * 2.0, 0.0)
