"""Sum of two vectors."""


def add(x, y):
    return x + y
