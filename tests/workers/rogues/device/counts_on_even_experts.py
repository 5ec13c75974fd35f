"""Has room for half as many tokens again of an expert as each would get if all got the same.

operator: moe_swiglu
on a card: wrong_result
at: check
stopped by: draws in which half of all tokens go to one expert
on model: correct
"""

import torch
import triton
import triton.language as tl


@triton.jit
def route_kernel(expert_ptr, slot_ptr, count_ptr, n_slots, BLOCK: tl.constexpr):
    expert = tl.program_id(0)
    count = 0
    for start in range(0, n_slots, BLOCK):
        slots = start + tl.arange(0, BLOCK)
        chosen = tl.load(expert_ptr + slots, mask=slots < n_slots, other=-1) == expert
        ranks = count + tl.cumsum(chosen.to(tl.int32), axis=0) - 1
        tl.store(slot_ptr + expert * n_slots + ranks, slots, mask=chosen)
        count += tl.sum(chosen.to(tl.int32), axis=0)
    tl.store(count_ptr + expert, count)


@triton.jit
def gate_up_kernel(
    x_ptr,
    gate_ptr,
    up_ptr,
    slot_ptr,
    count_ptr,
    hidden_ptr,
    n_slots,
    n_inner,
    n_cols,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    expert = tl.program_id(2)
    count = tl.load(count_ptr + expert)
    if tl.program_id(0) * BLOCK_M >= count:
        return
    ranks = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    slots = tl.load(slot_ptr + expert * n_slots + ranks, mask=ranks < count, other=0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    base = expert.to(tl.int64) * n_cols * n_inner
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, n_inner, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (ranks < count)[:, None] & (inner < n_inner)[None, :]
        x = tl.load(x_ptr + (slots // K)[:, None] * n_inner + inner[None, :], mask=x_mask, other=0.0)
        mask = (inner < n_inner)[:, None] & (cols < n_cols)[None, :]
        offsets = base + cols[None, :] * n_inner + inner[:, None]
        gate = tl.dot(x, tl.load(gate_ptr + offsets, mask=mask, other=0.0), gate)
        up = tl.dot(x, tl.load(up_ptr + offsets, mask=mask, other=0.0), up)
    hidden = gate * tl.sigmoid(gate) * up
    mask = (ranks < count)[:, None] & (cols < n_cols)[None, :]
    tl.store(hidden_ptr + slots[:, None] * n_cols + cols[None, :], hidden, mask=mask)


@triton.jit
def down_kernel(
    hidden_ptr,
    down_ptr,
    slot_ptr,
    count_ptr,
    result_ptr,
    n_slots,
    n_inner,
    n_cols,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    expert = tl.program_id(2)
    count = tl.load(count_ptr + expert)
    if tl.program_id(0) * BLOCK_M >= count:
        return
    ranks = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    slots = tl.load(slot_ptr + expert * n_slots + ranks, mask=ranks < count, other=0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    base = expert.to(tl.int64) * n_cols * n_inner
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, n_inner, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        hidden_mask = (ranks < count)[:, None] & (inner < n_inner)[None, :]
        hidden = tl.load(hidden_ptr + slots[:, None] * n_inner + inner[None, :], mask=hidden_mask, other=0.0)
        mask = (inner < n_inner)[:, None] & (cols < n_cols)[None, :]
        down = tl.load(down_ptr + base + cols[None, :] * n_inner + inner[:, None], mask=mask, other=0.0)
        total = tl.dot(hidden, down, total)
    mask = (ranks < count)[:, None] & (cols < n_cols)[None, :]
    tl.store(result_ptr + slots[:, None] * n_cols + cols[None, :], total, mask=mask)


@triton.jit
def combine_kernel(result_ptr, share_ptr, y_ptr, n_cols, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for slot in range(K):
        result = tl.load(result_ptr + (row * K + slot) * n_cols + cols, mask=cols < n_cols, other=0.0)
        total += result * tl.load(share_ptr + row * K + slot)
    tl.store(y_ptr + row * n_cols + cols, total, mask=cols < n_cols)


def moe_swiglu(gate_weight, up_weight, down_weight, x, expert, share):
    n_experts, hidden_size, size = gate_weight.shape
    n_rows, n_chosen = expert.shape
    n_slots = n_rows * n_chosen
    slots = torch.empty((n_experts, n_slots), dtype=torch.int32, device=x.device)
    counts = torch.empty((n_experts,), dtype=torch.int32, device=x.device)
    hidden = torch.empty((n_slots, hidden_size), dtype=x.dtype, device=x.device)
    results = torch.empty((n_slots, size), dtype=torch.float32, device=x.device)
    y = torch.empty_like(x)
    route_kernel[(n_experts,)](expert, slots, counts, n_slots, BLOCK=1024, num_warps=4)
    mean = n_slots / n_experts
    blocks = triton.cdiv(min(n_slots, int(mean + 8 * mean**0.5 + 64)), 64)
    gate_up_kernel[(blocks, triton.cdiv(hidden_size, 64), n_experts)](
        x,
        gate_weight,
        up_weight,
        slots,
        counts,
        hidden,
        n_slots,
        size,
        hidden_size,
        K=n_chosen,
        BLOCK_M=64,
        BLOCK_N=64,
        BLOCK_K=32,
        num_warps=4,
    )
    down_kernel[(blocks, triton.cdiv(size, 64), n_experts)](
        hidden,
        down_weight,
        slots,
        counts,
        results,
        n_slots,
        hidden_size,
        size,
        BLOCK_M=64,
        BLOCK_N=64,
        BLOCK_K=32,
        num_warps=4,
    )
    combine_kernel[(n_rows, triton.cdiv(size, 512))](results, share, y, size, K=n_chosen, BLOCK=512, num_warps=4)
    return y
