"""Small kernels in Helion, ours: the package's own examples are not in its wheel.

They leave tiles and sizes to its tuner, as its documentation advises. Each takes an operator's arguments in order.
`workers.baselines.helion` makes kernels of them, and alone imports this module, because the package is optional.
"""

import helion.language as hl
import torch

LOG2_E = 1.4426950408889634


def rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Scale rows by the root of their mean square, plus 1e-6, and by weights."""
    y = torch.empty_like(x)
    for rows in hl.tile(x.size(0)):
        wide = x[rows, :].to(torch.float32)
        scale = torch.rsqrt((wide * wide).mean(-1) + 1e-6)
        y[rows, :] = (wide * scale[:, None] * weight[:].to(torch.float32)).to(x.dtype)
    return y


def layernorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Normalise rows to mean 0 and variance 1, plus 1e-5, then apply weights and biases."""
    y = torch.empty_like(x)
    for rows in hl.tile(x.size(0)):
        wide = x[rows, :].to(torch.float32)
        centred = wide - wide.mean(-1)[:, None]
        scale = torch.rsqrt((centred * centred).mean(-1) + 1e-5)
        scaled = centred * scale[:, None] * weight[:].to(torch.float32)
        y[rows, :] = (scaled + bias[:].to(torch.float32)).to(x.dtype)
    return y


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of rows."""
    y = torch.empty_like(x)
    for rows in hl.tile(x.size(0)):
        wide = x[rows, :].to(torch.float32)
        shifted = torch.exp(wide - wide.amax(-1)[:, None])
        y[rows, :] = (shifted / shifted.sum(-1)[:, None]).to(x.dtype)
    return y


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up`."""
    y = torch.empty_like(gate)
    for tile in hl.tile(gate.size()):
        wide = gate[tile].to(torch.float32)
        y[tile] = (wide * torch.sigmoid(wide) * up[tile].to(torch.float32)).to(gate.dtype)
    return y


def row_losses(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross entropy per row, float32."""
    n_rows, n_classes = logits.size()
    found = torch.empty([n_rows], dtype=torch.float32, device=logits.device)
    flat = logits.view(-1)
    for rows in hl.tile(n_rows):
        wide = logits[rows, :].to(torch.float32)
        most = wide.amax(-1)
        total = torch.exp(wide - most[:, None]).sum(-1)
        chosen = hl.load(flat, [rows.index * n_classes + target[rows]]).to(torch.float32)
        found[rows] = torch.log(total) + most - chosen
    return found


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Matrix product, accumulated in float32."""
    m, k = a.size()
    n = b.size(1)
    c = torch.empty([m, n], dtype=a.dtype, device=a.device)
    for rows, columns in hl.tile([m, n]):
        total = hl.zeros([rows, columns], dtype=torch.float32)
        for inner in hl.tile(k):
            total = torch.addmm(total, a[rows, inner], b[inner, columns])
        c[rows, columns] = total.to(a.dtype)
    return c


def gate_up_swiglu(x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor) -> torch.Tensor:
    """`silu(x w_gate^T) * (x w_up^T)`, both products in one pass."""
    m, k = x.size()
    n = w_gate.size(0)
    y = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for rows, columns in hl.tile([m, n]):
        gate = hl.zeros([rows, columns], dtype=torch.float32)
        up = hl.zeros([rows, columns], dtype=torch.float32)
        for inner in hl.tile(k):
            part = x[rows, inner]
            gate = torch.addmm(gate, part, w_gate[columns, inner].T)
            up = torch.addmm(up, part, w_up[columns, inner].T)
        y[rows, columns] = (gate * torch.sigmoid(gate) * up).to(x.dtype)
    return y


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: hl.constexpr) -> torch.Tensor:
    """Attention by blocks of keys with a running maximum; with `causal`, blocks behind the diagonal are skipped."""
    n_positions = q.size(-2)
    d = hl.specialize(q.size(-1))
    queries, keys, values = (each.reshape([-1, n_positions, d]) for each in (q, k, v))
    y = torch.empty_like(queries)
    scale = d**-0.5 * LOG2_E
    beyond = n_positions
    if causal:
        beyond = 0
    for heads, rows in hl.tile([queries.size(0), n_positions]):
        most = hl.full([heads, rows], float("-inf"), dtype=torch.float32)
        weights = hl.zeros([heads, rows], dtype=torch.float32)
        total = hl.zeros([heads, rows, d], dtype=torch.float32)
        query = queries[heads, rows, :]
        for columns in hl.tile(0, min(rows.end + beyond, n_positions)):
            scores = torch.bmm(query, keys[heads, columns, :].transpose(1, 2), torch.float32) * scale
            if causal:
                earlier = rows.index[None, :, None] >= columns.index[None, None, :]
                scores = torch.where(earlier, scores, float("-inf"))
            new = torch.maximum(most, scores.amax(-1))
            share = torch.exp2(scores - new[:, :, None])
            kept = torch.exp2(most - new)
            weights = weights * kept + share.sum(-1)
            total = torch.baddbmm(total * kept[:, :, None], share.to(v.dtype), values[heads, columns, :])
            most = new
        y[heads, rows, :] = (total / weights[:, :, None]).to(q.dtype)
    return y.reshape(q.size())
