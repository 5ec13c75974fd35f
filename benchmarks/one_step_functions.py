"""Functions and modules for `benchmarks.one_step`: ten as models have them, ten mixtures. Hints are their only spec."""

# Hints of sizes are texts that Python's own checkers take for names.

import math
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional


class LlamaRMSNorm(nn.Module):
    """Norm of Llama."""

    def __init__(self, hidden_size: int = 4096, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size, dtype=torch.bfloat16))
        self.variance_epsilon = eps

    def forward(self, hidden_states: Annotated[Tensor, "bf16[batch=2, seq=1024, 4096]"]) -> Tensor:
        """Compute it."""
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


class LlamaMLP(nn.Module):
    """Gated MLP of Llama."""

    def __init__(self, hidden_size: int = 1024, intermediate_size: int = 2816) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False, dtype=torch.bfloat16)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False, dtype=torch.bfloat16)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False, dtype=torch.bfloat16)

    def forward(self, x: Annotated[Tensor, "bf16[batch=2, seq=512, 1024]"]) -> Tensor:
        """Compute it."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


def rotate_half(x: Tensor) -> Tensor:
    """Half rotation."""
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(
    q: Annotated[Tensor, "bf16[batch=2, heads=16, seq=1024, 128]"],
    k: Annotated[Tensor, "bf16[batch=2, kv_heads=4, seq=1024, 128]"],
    cos: Annotated[Tensor, "bf16[batch=2, seq=1024, 128]"],
    sin: Annotated[Tensor, "bf16[batch=2, seq=1024, 128]"],
) -> tuple[Tensor, Tensor]:
    """Rotary embedding of Llama."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


class RotaryEmbedding(nn.Module):
    """Rotary embedding with its own table, as in GPT-NeoX."""

    def __init__(self, dim: int = 64, base: float = 10000.0) -> None:
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)))

    def forward(self, x: Annotated[Tensor, "f32[batch=4, seq=512, 64]"]) -> Tensor:
        """Compute it."""
        position = torch.arange(x.shape[1], device=x.device).float()
        angles = torch.outer(position, self.inv_freq)
        angles = torch.cat((angles, angles), dim=-1)
        return x * angles.cos() + rotate_half(x) * angles.sin()


class NewGELU(nn.Module):
    """Activation of GPT-2."""

    def forward(self, x: Annotated[Tensor, "f32[batch=4, seq=512, width=3072]"]) -> Tensor:
        """Compute it."""
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class GPT2Attention(nn.Module):
    """Causal self-attention of GPT-2, with its mask as a buffer."""

    def __init__(self, width: int = 256, heads: int = 4, longest: int = 1024) -> None:
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.register_buffer("bias", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))
        self.heads, self.width = heads, width

    def forward(self, x: Annotated[Tensor, "f32[batch=4, seq=256, 256]"]) -> Tensor:
        """Compute it."""
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(self.width, dim=2)
        q, k, v = (each.view(b, t, self.heads, c // self.heads).transpose(1, 2) for each in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
        y = functional.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class T5LayerNormAndDense(nn.Module):
    """Norm and gated dense layer of T5."""

    def __init__(self, width: int = 512, inner: int = 1024) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.wi_0, self.wi_1 = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Annotated[Tensor, "f32[batch=8, seq=128, 512]"]) -> Tensor:
        """Compute it."""
        normed = self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.dropout(functional.gelu(self.wi_0(normed), approximate="tanh") * self.wi_1(normed))


class ConvNeXtBlock(nn.Module):
    """Block of ConvNeXt."""

    def __init__(self, dim: int = 96) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(1e-6 * torch.ones(dim))

    def forward(self, x: Annotated[Tensor, "f32[batch=4, 96, 56, 56]"]) -> Tensor:
        """Compute it."""
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.gamma * self.pwconv2(functional.gelu(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


class EncoderLayer(nn.Module):
    """Encoder layer of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)

    def forward(self, x: Annotated[Tensor, "f32[batch=4, seq=128, 256]"]) -> Tensor:
        """Compute it."""
        return self.layer(x)


class SqueezeExcitation(nn.Module):
    """Squeeze-and-excitation of EfficientNet."""

    def __init__(self, channels: int = 64, reduced: int = 16) -> None:
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, reduced, 1), nn.Conv2d(reduced, channels, 1)

    def forward(self, x: Annotated[Tensor, "f32[batch=8, 64, height=56, width=56]"]) -> Tensor:
        """Compute it."""
        squeezed = functional.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.expand(functional.silu(self.reduce(squeezed))))


def residual_gated_norm(
    x: Annotated[Tensor, "bf16[M=4096, N=1024]"],
    residual: Annotated[Tensor, "bf16[M=4096, N=1024]"],
    gate: Annotated[Tensor, "bf16[N=1024]"],
) -> tuple[Tensor, Tensor]:
    """Residual, sigmoid gate, norm."""
    h = x.float() + residual.float()
    h = h * torch.sigmoid(gate.float())
    return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype), h.to(x.dtype)


def softcapped_scores(
    q: Annotated[Tensor, "f32[H=8, T=256, 64]"], k: Annotated[Tensor, "f32[H=8, S=256, 64]"]
) -> Tensor:
    """Attention weights with a soft cap."""
    scores = torch.einsum("htd,hsd->hts", q, k) / 8.0
    return torch.softmax(30.0 * torch.tanh(scores / 30.0), dim=-1)


def weighted_huber(
    pred: Annotated[Tensor, "f32[N=65536]"],
    target: Annotated[Tensor, "f32[N=65536]"],
    weight: Annotated[Tensor, "f32[N=65536]"],
) -> Tensor:
    """Huber loss with weights."""
    error = (pred - target).abs()
    return (torch.where(error < 1.0, 0.5 * error.square(), error - 0.5) * weight.abs()).sum() / weight.abs().sum()


def log_mixture(
    logits: Annotated[Tensor, "f32[B=512, K=64]"],
    means: Annotated[Tensor, "f32[K=64]"],
    x: Annotated[Tensor, "f32[B=512]"],
) -> Tensor:
    """Log-likelihood of a mixture of normal distributions."""
    return torch.logsumexp(torch.log_softmax(logits, -1) - 0.5 * (x[:, None] - means).square(), -1)


def cosine_table(a: Annotated[Tensor, "f16[M=512, D=256]"], b: Annotated[Tensor, "f16[N=512, D=256]"]) -> Tensor:
    """Cosine similarities of all pairs."""
    return (functional.normalize(a.float(), dim=-1) @ functional.normalize(b.float(), dim=-1).t()).to(a.dtype)


def moving_statistics(x: Annotated[Tensor, "f32[B=16, C=32, T=1024]"]) -> tuple[Tensor, Tensor]:
    """Moving mean and standard deviation."""
    mean = functional.avg_pool1d(x, 9, stride=1, padding=4)
    square = functional.avg_pool1d(x.square(), 9, stride=1, padding=4)
    return mean, (square - mean.square()).clamp(min=0).sqrt()


def glu_variants(x: Annotated[Tensor, "bf16[M=2048, 2048]"]) -> Tensor:
    """Sum of two gated halves."""
    a, b = x.float().chunk(2, -1)
    return (functional.relu(a) * b + a * functional.hardsigmoid(b)).to(x.dtype)


def blurred_edges(image: Annotated[Tensor, "f32[B=8, 1, H=128, W=128]"]) -> Tensor:
    """Blur, then gradients, with fixed filters."""
    blur = torch.tensor([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]], device=image.device).view(1, 1, 3, 3) / 16
    edge = torch.tensor([[1.0, 0.0, -1.0]], device=image.device).view(1, 1, 1, 3)
    return functional.conv2d(functional.conv2d(image, blur, padding=1), edge, padding=(0, 1)).abs()


def exponential_average(x: Annotated[Tensor, "f32[B=64, T=256]"]) -> Tensor:
    """Exponential moving average by a decay matrix."""
    t = torch.arange(x.shape[1], device=x.device)
    decay = torch.where(t[:, None] >= t, 0.9 ** (t[:, None] - t).clamp(min=0).float(), 0.0)
    return 0.1 * x @ decay.t()


def top_two_gap(x: Annotated[Tensor, "f32[B=1024, K=128]"]) -> Tensor:
    """Gap of the two largest values of each row."""
    values = x.sort(-1, descending=True).values
    return values[:, 0] - values[:, 1]
