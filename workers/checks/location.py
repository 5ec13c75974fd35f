"""Where results are wrong, in words: the first thing that tells a missing mask from a wrong formula."""

import torch

_SMALLEST_TILE = 16
# From here on it may be a tile's end that what is right keeps to; before, only where it is most of the axis.


def at(index: int, shape: torch.Size) -> str:
    """A flat index as a subscript, such as `[3, 17]`."""
    place = torch.unravel_index(torch.tensor(index), shape) if len(shape) else ()
    return f"[{', '.join(str(int(axis)) for axis in place)}]"


def cluster(wrong: torch.Tensor) -> str:
    """How wrong elements are spread: their share, and the axes along which they keep to one end.

    Args:
        wrong: Boolean, in the output's shape.
    """
    count, total = int(wrong.sum()), wrong.numel()
    notes = [f"{count} of {total} elements"]
    for axis, size in enumerate(wrong.shape):
        others = [other for other in range(wrong.dim()) if other != axis]
        hit = wrong.any(dim=others) if others else wrong
        places = hit.nonzero().flatten()
        first, last = int(places[0]), int(places[-1])
        if first == last and size > 1:
            notes.append(f"all at index {first} of axis {axis}")
        elif first > 0 and last == size - 1 and (first >= _SMALLEST_TILE or 2 * first >= size):
            most = 2 * count >= total // size * (size - first)
            asked = ": is its tail masked?" if most else ""
            notes.append(f"all from index {first} of axis {axis} on, which has {size}{asked}")
        elif first == 0 and last < size - 1:
            notes.append(f"all up to index {last} of axis {axis}, which has {size}")
    return ", ".join(notes)
