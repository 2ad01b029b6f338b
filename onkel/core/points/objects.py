"""Points of any kind, kept by slot."""

from __future__ import annotations

from typing import Any

import numpy as np

from onkel.core.points.dense import Array


class Objects:
    """Points of any kind: strings, graphs, whatever the user's kernel understands."""

    kind = "objects"
    dtype = np.dtype(np.float64)
    width = -1

    def __init__(self, items: list[Any]):
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    @property
    def nbytes(self) -> int:
        return 8 * len(self.items)

    def take(self, index: Any) -> Objects:
        return Objects([self.items[i] for i in np.arange(len(self))[index]])

    def empty(self, n: int) -> Objects:
        return Objects([None] * n)

    def put(self, slots: Array, block: Objects, rows: Array) -> None:
        for slot, row in zip(slots, rows, strict=True):
            self.items[slot] = block.items[row]

    def copy(self) -> Objects:
        return Objects(list(self.items))

    def plain(self) -> list[Any]:
        return self.items
