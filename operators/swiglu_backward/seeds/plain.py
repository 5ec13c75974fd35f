"""SwiGLU's gated activation and its gradients over flat blocks; the backward kernel computes the sigmoid again."""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(y_ptr + offsets, y, mask=mask)


@triton.jit
def swiglu_backward_kernel(grad_y_ptr, gate_ptr, up_ptr, grad_gate_ptr, grad_up_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    grad_y = tl.load(grad_y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    sigmoid = tl.sigmoid(gate)
    silu = gate * sigmoid
    grad_silu = grad_y * up
    grad_gate = grad_silu * sigmoid + grad_silu * silu * (1.0 - sigmoid)
    tl.store(grad_gate_ptr + offsets, grad_gate, mask=mask)
    tl.store(grad_up_ptr + offsets, grad_y * silu, mask=mask)


def swiglu(gate, up):
    y = torch.empty_like(gate)
    n_elements = gate.numel()
    swiglu_kernel[(triton.cdiv(n_elements, 1024),)](gate, up, y, n_elements, BLOCK=1024, num_warps=4)
    return y


def swiglu_backward(grad_y, gate, up, y):
    grad_gate, grad_up = torch.empty_like(gate), torch.empty_like(up)
    n_elements = gate.numel()
    grid = (triton.cdiv(n_elements, 1024),)
    swiglu_backward_kernel[grid](grad_y, gate, up, grad_gate, grad_up, n_elements, BLOCK=1024, num_warps=4)
    return grad_gate, grad_up
