"""The sum of all elements."""


def total(x):
    return x.float().sum()
