import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)

    def forward(self, x):
        x = torch.max(self.gemm(x), dim=1, keepdim=True).values
        x = x - x.mean(dim=1, keepdim=True)
        return torch.nn.functional.gelu(x)


rows = 1024
in_features = 512
out_features = 512


def get_inputs():
    return [torch.rand(rows, in_features)]


def get_init_inputs():
    return [in_features, out_features]
