"""What may come in as points: rows of an array (dense.py), rows of a CSR matrix (sparse.py), or any objects (objects.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from onkel.core.points.dense import Array, Rows
from onkel.core.points.objects import Objects
from onkel.core.points.sparse import Sparse

Store = Rows | Sparse | Objects


def is_sparse(X: Any) -> bool:
    return type(X).__module__.startswith("scipy.sparse")


def read(X: Any, kernel: Any, dtype: Any = None) -> Store:
    """X as a block of points, checked: finite numbers in rows, or objects where the kernel is the user's own callable."""
    if is_sparse(X):
        kind = np.dtype(dtype or (np.float32 if X.dtype == np.float32 else np.float64))
        block: Store = Sparse.of(X, kind)
        values, width = block.data, block.width  # type: ignore[union-attr]
    else:
        array = _as_numbers(X)
        if array is None:
            if "objects" not in kernel.takes:
                raise ValueError(
                    "X must be numbers in rows, shape (n, d); to learn from other objects give a kernel that understands them: "
                    "a callable (X, Z) -> matrix"
                )
            items = list(X)
            if not items:
                raise ValueError("X is empty: give at least one example")
            return Objects(items)
        if array.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, (examples, features); got shape {array.shape}. "
                "Reshape your data: X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one example"
            )
        kind = np.dtype(dtype or (np.float32 if array.dtype in (np.float16, np.float32) else np.float64))
        with np.errstate(over="ignore"):  # what does not fit the model's float32 becomes infinite, and is refused below
            values, width = np.ascontiguousarray(array, kind), array.shape[1]
        if not values.flags.writeable:
            values = values.copy()  # loops are compiled for arrays that may be written; a second kind would compile them again
        block = Rows(values)
    if len(block) == 0 or width == 0:
        raise ValueError(
            f"X is empty (shape {X.shape if hasattr(X, 'shape') else np.shape(X)}): give at least one example and one feature"
        )
    # of long rows the squared lengths tell in one pass, unless they overflow
    if (width < 64 or not np.isfinite(block.norms).all()) and not np.isfinite(values).all():  # type: ignore[union-attr]
        raise ValueError(f"X holds NaN or infinity{_where(values)}; every value must be a finite {kind.name} number")
    return block


def _where(values: Array) -> str:
    if values.ndim != 2:
        return ""
    row, column = np.argwhere(~np.isfinite(values))[0]
    return f", first in row {row}, column {column}"


def _as_numbers(X: Any) -> Array | None:
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        return X
    if isinstance(X, str | bytes):
        raise ValueError(f"X must be a sequence of examples; got one string {X[:20]!r}")
    try:
        array = np.asarray(X)
        if array.dtype.kind in "biuf":
            return array
        if array.dtype.kind == "O" and array.ndim == 2:
            return array.astype(np.float64)
    except (ValueError, TypeError):
        pass
    return None
