"""The catalogue: one folder an operator, each with operator.toml, reference.py and seed kernels."""
