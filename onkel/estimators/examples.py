"""Blocks of examples on their way to a model, and what is told of them afterwards."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.points.dense import Array


class Encoded(NamedTuple):
    """Labels of a block: the distinct ones, and for each example which of them."""

    names: list[Any]
    index: NDArray[np.int64]

    @staticmethod
    def of(y: Any) -> Encoded:
        """From any labels that can be keys of a dict."""
        names: dict[Any, int] = {}
        index = np.array([names.setdefault(label, len(names)) for label in y], np.int64)
        return Encoded(list(names), index)


class StreamTrace(NamedTuple):
    """A learner's trace, and where the drift detector spoke."""

    scores: Array
    loss: NDArray[np.float64]
    mistake: NDArray[np.bool_]
    eta: NDArray[np.float64]
    theta: NDArray[np.float64]
    size: NDArray[np.int64]
    drift: NDArray[np.bool_]


def rows(X: Any) -> int:
    """How many examples a block holds."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def part(y: Any, piece: Any) -> Any:
    """Some of the targets, by a slice or by numbers."""
    return Encoded(y.names, y.index[piece]) if isinstance(y, Encoded) else None if y is None else y[piece]


def stacked(traces: list[StreamTrace]) -> StreamTrace:
    """One behind the other."""
    if not traces:
        kinds = (float, float, bool, float, float, np.int64, bool)
        return StreamTrace(*(np.zeros(0, kind) for kind in kinds))
    return traces[0] if len(traces) == 1 else StreamTrace(*(np.concatenate(column) for column in zip(*traces)))

