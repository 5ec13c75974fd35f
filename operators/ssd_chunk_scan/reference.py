"""The scan of Mamba-2: `S_t = exp(step_t rate) S_(t-1) + step_t written_t^T x_t`, `y_t = read_t S_t`, head by head.

Dao and Gu, "Transformers are SSMs" (2024): the state space dual of section 6, by chunks as its listing 1 has them,
with one group of B (`written`) and C (`read`) and the heads in front of the positions; without the skip by D, the
gate and the initial state that the public kernel also takes. Written down from memory of the paper.
"""

import torch

CHUNK = 64


def ssd_chunk_scan(x, step, rate, written, read):
    dtype, (batch, heads, length, size) = x.dtype, x.shape
    count = -(-length // CHUNK)
    missing = count * CHUNK - length
    step = torch.nn.functional.pad(step, (0, missing)).reshape(batch, heads, count, CHUNK)
    x, written, read = (torch.nn.functional.pad(each.float(), (0, 0, 0, missing)) for each in (x, written, read))
    x = x.reshape(batch, heads, count, CHUNK, size) * step.unsqueeze(-1)
    written, read = (each.reshape(batch, 1, count, CHUNK, -1) for each in (written, read))
    logs = step * rate.reshape(heads, 1, 1)
    within = _decays(logs)
    y = (read @ written.transpose(-2, -1) * within) @ x
    states = (written.transpose(-2, -1) * within[..., -1:, :]) @ x
    after = (_decays(logs.sum(dim=-1)) @ states.flatten(3)).reshape(states.shape)
    before = torch.nn.functional.pad(after, (0, 0, 0, 0, 1, 0))[:, :, :-1]
    y = y + (read * torch.exp(logs.cumsum(dim=-1)).unsqueeze(-1)) @ before
    return y.reshape(batch, heads, count * CHUNK, size)[:, :, :length].to(dtype)


def _decays(logs):
    """What is left at place i of what was there at place j, `exp(sum of logs behind j, up to i)`; zero before."""
    spans = logs.unsqueeze(-1).expand(*logs.shape, logs.shape[-1]).tril(-1)
    return torch.exp(spans.cumsum(dim=-2)).tril()
