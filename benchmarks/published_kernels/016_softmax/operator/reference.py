"""Softmax along the last axis."""

import torch


def softmax_rows(x):
    return torch.softmax(x.float(), dim=-1)
