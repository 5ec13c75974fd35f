"""Half of the scaled source, added to the rows that the index names; it names none twice."""


def scaled_index_add(x, index, source, scaling):
    x[index] = x[index] + 0.5 * scaling * source
    return x
