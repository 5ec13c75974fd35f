"""Monarch product: two block-diagonal matrices with a permutation between and behind them, applied to the rows of x.

Dao et al., "Monarch: Expressive Structured Matrices for Efficient and Accurate Training" (2022), section 3.1, with
blocks that need not be square, laid out as in its public code, `blockdiag_butterfly_multiply`; written down from
memory of both. Features are K blocks of P. `first` makes K blocks of Q of them; element `i` of all K Q goes to place
`i // K` of block `i % K`; `second` makes K blocks of S of those; element s of block k ends up at `s K + k`. The
products are torch's, in bfloat16 with sums in float32.
"""

import torch


def monarch_matmul(x, first, second):
    rows, blocks, _ = x.shape
    hidden = torch.bmm(x.transpose(0, 1), first.transpose(1, 2)).transpose(0, 1)
    shuffled = hidden.reshape(rows, first.shape[1], blocks).permute(2, 0, 1)
    return torch.bmm(shuffled, second.transpose(1, 2)).permute(1, 2, 0).contiguous()
