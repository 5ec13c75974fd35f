"""The grid: conversion between coordinates and cell indices, and the neighbours of a cell."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from archive.records import AxisRecord


class Grid:
    """Cells over a search's axes, numbered row-major: the last axis varies fastest."""

    def __init__(self, axes: Sequence[AxisRecord]) -> None:
        """Lay out the cells.

        Raises:
            ValueError: If there is no axis, or one has no bin.
        """
        if not axes or any(axis.bins < 1 for axis in axes):
            raise ValueError("a grid needs at least one axis, and every axis at least one bin")
        self.axes = tuple(axes)
        self.cells = prod(axis.bins for axis in axes)
        self._strides = tuple(prod(axis.bins for axis in axes[place + 1 :]) for place in range(len(axes)))

    def index(self, coordinates: Mapping[str, Mapping[str, Any]]) -> int | None:
        """Return the cell at coordinates (`{name: {"value": ..., "bin": ...}}`); None if an axis has none.

        Raises:
            ValueError: If a bin is not one of its axis: the coordinates belong to another version of the axes.
        """
        cell = 0
        for axis, stride in zip(self.axes, self._strides, strict=True):
            if axis.descriptor not in coordinates:
                return None
            bin_ = coordinates[axis.descriptor]["bin"]
            if not 0 <= bin_ < axis.bins:
                raise ValueError(f"bin {bin_} of '{axis.descriptor}' is outside its {axis.bins} bins")
            cell += bin_ * stride
        return cell

    def bins(self, index: int) -> tuple[int, ...]:
        """Return the bins of a cell, one per axis, in the axes' order.

        Raises:
            IndexError: If the grid has no such cell.
        """
        if not 0 <= index < self.cells:
            raise IndexError(f"cell {index} is outside a grid of {self.cells}")
        return tuple(index // stride % axis.bins for axis, stride in zip(self.axes, self._strides, strict=True))

    def neighbours(self, index: int) -> list[int]:
        """Return the cells one bin away on exactly one axis, in the order of the axes.

        Raises:
            IndexError: If the grid has no such cell.
        """
        found = []
        for axis, stride, bin_ in zip(self.axes, self._strides, self.bins(index), strict=True):
            found += [index + step * stride for step in (-1, 1) if 0 <= bin_ + step < axis.bins]
        return found
