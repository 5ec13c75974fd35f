import torch


def relu2_gate(gate, up, scale):
    return (torch.relu(gate.float()).square() * up.float() * scale.float()).to(gate.dtype)
