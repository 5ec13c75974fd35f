"""Weights of four bits as GPTQ packs them: (number - zero - 1) times the scale of the row's group."""

import torch


def dequant(qweight, scales, qzeros, g_idx):
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=qweight.device)
    numbers = ((qweight[:, None, :] >> shifts[None, :, None]) & 15).reshape(-1, qweight.shape[1])
    zeros = ((qzeros[:, :, None] >> shifts) & 15).reshape(qzeros.shape[0], -1)
    return ((numbers - zeros[g_idx] - 1).float() * scales[g_idx].float()).to(scales.dtype)
