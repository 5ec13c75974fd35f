"""The square of the positive part of each element."""


def relu_squared(x):
    return x.float().clamp(min=0).square().to(x.dtype)
