"""Group-wise rational activation of degree 5 over 4, `y = sum a_i x^i / (1 + sum |b_j x^j|)`, i from 0, j from 1.

Molina, Schramowski and Kersting, "Pade Activation Units" (2020), in its safe form, with coefficients shared by groups
of channels as in Yang and Wang, "Kolmogorov-Arnold Transformer" (2024). The papers were not at hand: the formula is
the one that KAT's public kernels (`rational_kat_cu`) state, absolute values term by term.
"""


def rational_activation(x, numerator, denominator):
    wide = x.float()
    above = numerator[:, 5:]
    for power in (4, 3, 2, 1, 0):
        above = above * wide + numerator[:, power : power + 1]
    size, weight = wide.abs(), denominator.abs()
    below = weight[:, 3:]
    for power in (2, 1, 0):
        below = below * size + weight[:, power : power + 1]
    return (above / (below * size + 1.0)).to(x.dtype)
