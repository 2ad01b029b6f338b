"""The first examples of a stream, kept until what has to be measured on them is settled: gamma="scale", the spread of targets.

Whenever their number has doubled, and at the last of them, it is measured on all so far, and they are learned anew with it; those
that come in between are learned as any others.  So it depends on their number alone what the model is, and one example is
relearned about twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onkel.core.points.read import is_sparse
from onkel.estimators.examples import rows

SETTLE = 100  # examples that settle it for good
MARKS = (1, 2, 4, 8, 16, 32, 64, SETTLE)


class WarmUp(NamedTuple):
    """Examples as they came, with labels and, if any of them had one, weights."""

    X: Any = None
    y: list[Any] = []  # noqa: RUF012 - never changed in place
    weight: Any = None

    @property
    def n(self) -> int:
        """How many examples."""
        return 0 if self.X is None else rows(self.X)

    @property
    def wanted(self) -> int:
        """How many more examples until it is measured again."""
        return next(mark for mark in MARKS if mark > self.n) - self.n

    def joined(self, X: Any, y: list[Any], weight: Any) -> WarmUp:
        """With more examples behind."""
        if self.X is None:
            return WarmUp(X, y, weight)
        if self.weight is not None or weight is not None:
            weight = np.concatenate([np.ones(rows(part)) if w is None else w for part, w in ((self.X, self.weight), (X, weight))])
        if is_sparse(X):
            from scipy.sparse import vstack

            return WarmUp(vstack([self.X, X], format="csr"), self.y + y, weight)
        return WarmUp(np.concatenate([self.X, X.astype(self.X.dtype, copy=False)]), self.y + y, weight)

    def widened(self, width: int, absent: float) -> WarmUp:
        """With more features, which the examples so far lacked."""
        if self.X is None:
            return self
        return self._replace(X=np.pad(self.X, ((0, 0), (0, width - self.X.shape[1])), constant_values=absent))

    @property
    def nbytes(self) -> int:
        """Bytes of the examples."""
        if self.X is None:
            return 0
        return int(sum(a.nbytes for a in (self.X.data, self.X.indices, self.X.indptr)) if is_sparse(self.X) else self.X.nbytes)

    def plain(self) -> dict[str, Any]:
        """As plain data, for files."""
        X = self.X
        if is_sparse(X):
            X = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": list(X.shape)}
        return {"X": X, "y": self.y, "weight": self.weight}

    @staticmethod
    def of(plain: dict[str, Any]) -> WarmUp:
        """From plain data."""
        X = plain["X"]
        if isinstance(X, dict):
            from scipy.sparse import csr_matrix

            X = csr_matrix((X["data"], X["indices"], X["indptr"]), shape=tuple(X["shape"]))
        return WarmUp(X, plain["y"], plain["weight"])
