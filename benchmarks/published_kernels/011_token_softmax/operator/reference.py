"""Softmax of each head's scores, of a batch of one sequence."""

import torch


def token_softmax(x):
    return torch.softmax(x, dim=-1)
