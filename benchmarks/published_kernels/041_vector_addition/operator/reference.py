"""The sum of two vectors."""


def vector_addition(a, b):
    return a + b
