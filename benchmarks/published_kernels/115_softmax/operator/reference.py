"""Softmax of each row."""

import torch


def softmax_rows(x):
    return torch.softmax(x.float(), dim=-1)
