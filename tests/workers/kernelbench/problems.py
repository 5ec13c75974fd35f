"""Problem files in the form of KernelBench's."""

HEADER = "import torch\nimport torch.nn as nn\n\n"
LINEAR = (
    HEADER
    + """
class Model(nn.Module):
    def __init__(self, in_features, out_features, factor):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.norm = nn.BatchNorm1d(out_features)
        self.factor = factor

    def forward(self, x, shift):
        return torch.relu(self.norm(self.gemm(x))) * self.factor + shift

batch_size = 32
in_features = 48
out_features = 64

def get_inputs():
    return [torch.rand(batch_size, in_features), 2.5]

def get_init_inputs():
    return [in_features, out_features, 0.5]
"""
)
LOSS = (
    HEADER
    + """
class Model(nn.Module):
    def forward(self, predictions, targets):
        return nn.functional.cross_entropy(predictions, targets)

def get_inputs():
    return [torch.rand(512, 100), torch.randint(0, 100, (512,))]

def get_init_inputs():
    return []
"""
)


def forward(line: str, inputs: str = "torch.rand(32, 64)", init: str = "pass") -> str:
    """A problem whose module does one thing."""
    return (
        f"{HEADER}\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, x):\n        {line}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return []\n"
    )


IN_PLACE = """
import torch
import torch.nn.functional as F


def both(x, y, scale):
    x.mul_(scale)
    y[:, 0].zero_()
    return x, x.sum(), y


def normed(x, mean, var):
    return F.batch_norm(x, mean, var, training=True, momentum=0.25)


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen.add_(x.sum(0))


def example_inputs():
    return [ARGUMENTS]
"""
"""Functions and a module that change inputs in place; `ARGUMENTS` stands for example arguments."""
