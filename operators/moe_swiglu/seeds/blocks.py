"""A mixture of experts with SwiGLU in four launches; programs for blocks of slots that experts have, and for few more.

A list of slots is made for every expert. A program of the products counts the experts' blocks until its own, so that
no more than one program an expert and column ends without work. Blocks hold 128 slots, or 16 where experts have few.
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
def find_block(count_ptr, n_experts, number, BLOCK_M: tl.constexpr, EXPERTS: tl.constexpr):
    experts = tl.arange(0, EXPERTS)
    counts = tl.load(count_ptr + experts, mask=experts < n_experts, other=0)
    blocks = (counts + BLOCK_M - 1) // BLOCK_M
    expert = tl.sum((tl.cumsum(blocks, axis=0) <= number).to(tl.int32), axis=0)
    before = tl.sum(tl.where(experts < expert, blocks, 0), axis=0)
    return expert, tl.sum(tl.where(experts == expert, counts, 0), axis=0), (number - before) * BLOCK_M


@triton.jit
def gate_up_kernel(
    x_ptr,
    gate_ptr,
    up_ptr,
    slot_ptr,
    count_ptr,
    hidden_ptr,
    n_experts,
    n_slots,
    n_inner,
    n_cols,
    K: tl.constexpr,
    EXPERTS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    expert, count, first = find_block(count_ptr, n_experts, tl.program_id(1), BLOCK_M, EXPERTS)
    if expert >= n_experts:
        return
    ranks = first + tl.arange(0, BLOCK_M)
    slots = tl.load(slot_ptr + expert * n_slots + ranks, mask=ranks < count, other=0).to(tl.int64)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
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
    n_experts,
    n_slots,
    n_inner,
    n_cols,
    EXPERTS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    expert, count, first = find_block(count_ptr, n_experts, tl.program_id(1), BLOCK_M, EXPERTS)
    if expert >= n_experts:
        return
    ranks = first + tl.arange(0, BLOCK_M)
    slots = tl.load(slot_ptr + expert * n_slots + ranks, mask=ranks < count, other=0).to(tl.int64)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
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
    for slot in tl.static_range(K):
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
    route_kernel[(n_experts,)](expert, slots, counts, n_slots, BLOCK=4096, num_warps=8)
    few = n_slots <= 16 * n_experts
    rows, width = (16, 64) if few else (128, 128)
    blocks = triton.cdiv(n_slots, rows) + n_experts
    gate_up_kernel[(triton.cdiv(hidden_size, width), blocks)](
        x,
        gate_weight,
        up_weight,
        slots,
        counts,
        hidden,
        n_experts,
        n_slots,
        size,
        hidden_size,
        K=n_chosen,
        EXPERTS=triton.next_power_of_2(n_experts),
        BLOCK_M=rows,
        BLOCK_N=width,
        BLOCK_K=64,
        num_warps=8,
        num_stages=4,
    )
    down_kernel[(triton.cdiv(size, width), blocks)](
        hidden,
        down_weight,
        slots,
        counts,
        results,
        n_experts,
        n_slots,
        hidden_size,
        size,
        EXPERTS=triton.next_power_of_2(n_experts),
        BLOCK_M=rows,
        BLOCK_N=width,
        BLOCK_K=64,
        num_warps=8,
        num_stages=4,
    )
    combine_kernel[(n_rows, triton.cdiv(size, 512))](results, share, y, size, K=n_chosen, BLOCK=512, num_warps=4)
    return y
