"""Descriptions of where results are wrong: the quickest way to tell a missing mask from a wrong formula."""

import torch

_SMALLEST_TILE = 16
# From this index on, the right part may end with a tile; before it, only if it covers most of the axis.


def at(index: int, shape: torch.Size) -> str:
    """Return a flat index as a subscript, such as `[3, 17]`."""
    place = torch.unravel_index(torch.tensor(index), shape) if len(shape) else ()
    return f"[{', '.join(str(int(axis)) for axis in place)}]"


def cluster(wrong: torch.Tensor) -> str:
    """Describe the spread of wrong elements: their share, and the axes along which they are at one end."""
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
            # Blocks divide a power of two, and a tail begins where a block does.
            is_tail = size & (size - 1) != 0 and first % _SMALLEST_TILE == 0
            most = is_tail and 2 * count >= total // size * (size - first)
            asked = ": is its tail masked?" if most else ""
            notes.append(f"all from index {first} of axis {axis} on, which has {size}{asked}")
        elif first == 0 and last < size - 1:
            notes.append(f"all up to index {last} of axis {axis}, which has {size}")
    return ", ".join(notes)
