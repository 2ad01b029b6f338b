"""Points in blocks: what may come in, where stored points live, and kernel matrices between them.

Points are rows of an array, rows of a CSR matrix, or any objects.  Each kind has a store that keeps the points of the budget by
slot, and a way to get the kernel matrix between a block of examples and a store: BLAS for products and distances, compiled
loops for the rest, the user's own callable for his kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.compiled import VECTOR, compiled, overload
from onkel.kernels import Matrix, Pairwise, Product, Sum, as_kernel, loops
from onkel.lanes import WIDTH, load, store
from onkel.products import fits, products

Array = NDArray[Any]


def finish(kernel, K, i, n):
    """The first n of row i from products, squared distances or absolute differences to kernel values; for compiled callers."""


@overload(finish)
def _finish(kernel, K, i, n):
    transform = kernel.instance_class.transform

    def row(kernel, K, i, n):
        j = 0
        while j + 16 <= n:
            store(K, i, j, transform(kernel, load(K, i, j)))
            j += 16
        while j < n:
            K[i, j] = transform(kernel, K[i, j])
            j += 1

    return row


@compiled
def finish_rows(kernel, K, lower):
    """The same for all rows, whole or below the diagonal."""
    for i in range(len(K)):
        finish(kernel, K, i, i if lower else K.shape[1])


@compiled(fastmath=VECTOR)
def expand(K, i, n, xn, zn, share):
    """K[i, :n] from products x.z to |x|^2 + |z|^2 - 2 x.z; returns how many lost too many digits to be trusted."""
    own, lost = xn[i], np.int32(0)
    for j in range(n):
        both = own + zn[j]
        d = both - (K[i, j] + K[i, j])
        K[i, j] = d if d > 0 else 0
        lost = np.int32(lost + np.int32(d < share * both))
    return lost


@compiled(fastmath=VECTOR)
def distance(X, i, Z, j):
    total = X.dtype.type(0)
    for c in range(X.shape[1]):
        total += (X[i, c] - Z[j, c]) ** 2
    return total


@compiled
def finish_squares(kernel, K, xn, zn, X, Z, lower):
    """From products to kernel values of a distance.  Points close to each other but far from the origin lose their digits in
    |x|^2 + |z|^2 - 2 x.z: those distances are computed again, from differences (where the rows are at hand)."""
    share = K.dtype.type(1e-4 if K.itemsize == 8 else 1e-2)
    for i in range(len(K)):
        n = i if lower else K.shape[1]
        if expand(K, i, n, xn, zn, share) > 0 and len(X) > 0:
            for j in range(n):
                if K[i, j] < share * (xn[i] + zn[j]):
                    K[i, j] = distance(X, i, Z, j)
        finish(kernel, K, i, n)


@compiled(fastmath=VECTOR)
def absolutes(X, Z, K):
    for i in range(len(X)):
        for j in range(len(Z)):
            total = K.dtype.type(0)
            for c in range(X.shape[1]):
                total += abs(X[i, c] - Z[j, c])
            K[i, j] = total


@compiled(fastmath=VECTOR)
def measure(X, out):
    for i in range(len(X)):
        total = out.dtype.type(0)
        for c in range(X.shape[1]):
            total += X[i, c] * X[i, c]
        out[i] = total


@compiled
def put_rows(data, lengths, slots, fresh, fresh_lengths, rows):
    for i in range(len(slots)):
        s, r = slots[i], rows[i]
        lengths[s] = fresh_lengths[r]
        for c in range(data.shape[1]):
            data[s, c] = fresh[r, c]


# --- dense rows ------------------------------------------------------------------------------------------------------------------


class Workspace:
    """Buffers that serve one block after the other: fresh pages of memory cost as much as the arithmetic on them."""

    def __init__(self, dtype: Any):
        self._dtype = dtype
        self._flat: dict[str, Array] = {}

    def matrix(self, name: str, rows: int, columns: int) -> Array:
        flat = self._flat.get(name)
        if flat is None or flat.size < rows * columns:
            flat = self._flat[name] = np.empty(rows * columns, self._dtype)
        return flat[: rows * columns].reshape(rows, columns)


_lock, _holders, _threads, _limit = Lock(), 0, 1, None


@contextmanager
def blas_threads(n: int) -> Iterator[None]:
    """Hold BLAS to n threads: on small blocks, or on a busy machine, more of them wait for each other.

    The limit is one for the whole process: who comes while somebody holds it takes what there is.
    """
    global _holders, _threads, _limit
    with _lock:
        _holders += 1
        if _holders == 1:
            _threads, _limit = n, _controller().limit(limits=n, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _threads = 1
                _limit.restore_original_limits()  # type: ignore[attr-defined]


def product_threads(block: Store, n: int) -> AbstractContextManager[None]:
    """The same, where the matrix products of this block go to BLAS at all."""
    return nullcontext() if n == 1 and isinstance(block, Rows) and fits(block.data, WIDTH) else blas_threads(n)


def rows_at_once(block: Store, points: float) -> int:
    """How many examples to take in one matrix product: BLAS wants more of them for larger budgets."""
    if _threads == 1 and isinstance(block, Rows) and fits(block.data, WIDTH):
        return 64
    return 64 if points <= 256 else 128 if points <= 512 else 256


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class Rows:
    """Points as rows of one array, with their squared lengths."""

    def __init__(self, data: Array, lengths: Array | None = None):
        self.data = data
        if lengths is not None:
            self.norms = lengths

    @cached_property
    def norms(self) -> Array:
        out = np.empty(len(self.data), self.data.dtype)
        measure(self.data, out)
        return out

    def __len__(self) -> int:
        return len(self.data)

    @property
    def width(self) -> int:
        return int(self.data.shape[1])

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes + self.norms.nbytes)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    def take(self, index: Any) -> Rows:
        return Rows(self.data[index], self.norms[index])

    def empty(self, n: int) -> Rows:
        return Rows(np.zeros((n, self.width), self.dtype), np.zeros(n, self.dtype))

    def put(self, slots: Array, block: Rows, rows: Array) -> None:
        put_rows(self.data, self.norms, slots, block.data, block.norms, rows)

    def copy(self) -> Rows:
        return Rows(self.data.copy(), self.norms.copy())

    def plain(self) -> Array:
        return self.data

    def kernel(self, k: Any, Z: Rows, K: Array, lower: bool = False) -> Array:
        """k between these rows and the first of Z, into K; ``lower``: only what is below the diagonal counts."""
        n = K.shape[1]
        X, data = self.data, Z.data[:n]
        if isinstance(k, Pairwise):
            loops(k.function).matrix(X, data, K)
            return K
        if k.geometry == "absolute":
            absolutes(X, data, K)
        elif _threads == 1 and fits(X, n):
            products(X, data, K, lower)
        else:
            np.dot(X, data.T, out=K)
        if k.geometry == "square":
            finish_squares(k, K, self.norms, Z.norms[:n], X, data, lower)
        else:
            finish_rows(k, K, lower)
        return K

    def diagonal(self, k: Any) -> Array:
        out = np.ones(len(self), self.dtype)
        if isinstance(k, Pairwise):
            loops(k.function).diagonal(self.data, out)
        elif k.geometry == "product":
            out[:] = self.norms
            finish_rows(k, out[:, None], False)
        return out


# --- sparse rows -----------------------------------------------------------------------------------------------------------------


@compiled
def transpose(indptr, indices, data, width, starts, rows, values):
    """CSR to CSC of one block, by counting."""
    starts[:] = 0
    for p in range(len(indices)):
        starts[indices[p] + 1] += 1
    for c in range(width):
        starts[c + 1] += starts[c]
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            at = starts[indices[p]]
            rows[at] = i
            values[at] = data[p]
            starts[indices[p]] = at + 1
    for c in range(width, 0, -1):
        starts[c] = starts[c - 1]
    starts[0] = 0


@compiled
def sparse_products(starts, rows, values, begin, length, indices, data, n, often, acc, K):
    """K[i, j] += x_i.z_j over the features not in ``often``: each stored row runs down the block's columns, so only features
    that both have cost anything.  Sixteen stored rows at a time, so that K is written in whole cache lines."""
    for first in range(0, n, 16):
        last = min(first + 16, n)
        acc[:] = 0
        for j in range(first, last):
            for p in range(begin[j], begin[j] + length[j]):
                c = indices[p]
                if often[c] < 0:
                    v = data[p]
                    for q in range(starts[c], starts[c + 1]):
                        acc[rows[q], j - first] += v * values[q]
        for i in range(len(K)):
            for j in range(first, last):
                K[i, j] += acc[i, j - first]


@compiled
def spread(begin, length, indices, data, often, out):
    """The features that come often, as columns of a dense matrix."""
    out[:] = 0
    for j in range(len(out)):
        for p in range(begin[j], begin[j] + length[j]):
            if often[indices[p]] >= 0:
                out[j, often[indices[p]]] = data[p]


@compiled
def sparse_absolutes(starts, rows, values, begin, length, indices, data, n, xsum, zsum, acc, K):
    """|x - z|_1 = |x|_1 + |z|_1 + sum over common features of |x - z| - |x| - |z|."""
    for j in range(n):
        for i in range(len(K)):
            acc[i] = xsum[i] + zsum[j]
        for p in range(begin[j], begin[j] + length[j]):
            c, v = indices[p], data[p]
            for q in range(starts[c], starts[c + 1]):
                acc[rows[q]] += abs(values[q] - v) - abs(values[q]) - abs(v)
        for i in range(len(K)):
            K[i, j] = max(acc[i], 0)


class Sparse:
    """Points as CSR rows in one heap; a replaced row is appended, the heap is packed anew when it is full of holes."""

    def __init__(self, begin: Array, length: Array, indices: Array, data: Array, width: int):
        self.begin, self.length, self.indices, self.data, self.width = begin, length, indices, data, width
        self.top = len(indices)
        self.norms = np.zeros(len(begin), data.dtype)
        self.sums = np.zeros(len(begin), data.dtype)
        for s in np.flatnonzero(length):
            self._measure(int(s))

    @staticmethod
    def of(X: Any, dtype: Any) -> Sparse:
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        indptr = X.indptr.astype(np.int64)
        return Sparse(indptr[:-1], np.diff(indptr), X.indices.astype(np.int32), X.data.astype(dtype), int(X.shape[1]))

    def _measure(self, slot: int) -> None:
        row = self.data[self.begin[slot] : self.begin[slot] + self.length[slot]]
        self.norms[slot] = row @ row
        self.sums[slot] = np.abs(row).sum()

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def nbytes(self) -> int:
        return int(sum(a.nbytes for a in (self.begin, self.length, self.indices, self.data, self.norms, self.sums)))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    def take(self, index: Any) -> Sparse:
        chosen = np.arange(len(self))[index]
        begin, length = self.begin[chosen], self.length[chosen]
        starts = np.concatenate(([0], np.cumsum(length)))
        where = np.repeat(begin - starts[:-1], length) + np.arange(starts[-1])
        taken = Sparse.__new__(Sparse)
        taken.begin, taken.length, taken.width = starts[:-1], length, self.width
        taken.indices, taken.data, taken.top = self.indices[where], self.data[where], int(starts[-1])
        taken.norms, taken.sums = self.norms[chosen], self.sums[chosen]
        return taken

    def empty(self, n: int) -> Sparse:
        nothing = np.zeros(n, np.int64)
        return Sparse(nothing, nothing.copy(), self.indices[:0], self.data[:0], self.width)

    def put(self, slots: Array, block: Sparse, rows: Array) -> None:
        fresh = block.take(rows)
        self.length[slots] = 0
        need = len(fresh.indices)
        if self.top + need > len(self.indices):
            live = self.take(slice(None))
            room = 2 * (live.top + need)
            self.begin, self.top = live.begin, live.top
            self.indices, self.data = (np.concatenate((a, np.zeros(room - len(a), a.dtype))) for a in (live.indices, live.data))
        end = self.top + need
        self.indices[self.top : end], self.data[self.top : end] = fresh.indices, fresh.data
        self.begin[slots], self.length[slots] = fresh.begin + self.top, fresh.length
        self.norms[slots], self.sums[slots] = fresh.norms, fresh.sums
        self.top = end

    def copy(self) -> Sparse:
        return self.take(slice(None))

    def plain(self) -> Any:
        from scipy.sparse import csr_matrix

        packed = self.take(slice(None))
        ends = np.append(packed.begin, packed.top)
        return csr_matrix((packed.data, packed.indices, ends), shape=(len(self), self.width))

    def kernel(self, k: Any, Z: Sparse, K: Array, lower: bool = False) -> Array:
        n = K.shape[1]
        if isinstance(k, Pairwise):
            raise TypeError("onkel.kernel compiles a function of two dense rows; for sparse data give a callable (X, Z) -> matrix")
        X = self.take(slice(None)) if self.top != len(self.indices) else self
        indptr = np.append(X.begin, X.top)
        starts = np.empty(X.width + 1, np.int64)
        rows, values = np.empty(X.top, np.int32), np.empty(X.top, X.dtype)
        transpose(indptr, X.indices, X.data, X.width, starts, rows, values)
        if k.geometry == "absolute":
            acc = np.empty(len(X), X.dtype)
            sparse_absolutes(starts, rows, values, Z.begin, Z.length, Z.indices, Z.data, n, X.sums, Z.sums, acc, K)
            finish_rows(k, K, lower)
            return K
        # words such as "the" are in every row: those columns go through BLAS, the long tail through the lists
        common = np.flatnonzero(np.diff(starts) > len(X) // 4)
        often = np.full(X.width, -1, np.int32)
        often[common] = np.arange(len(common))
        left, right = np.empty((len(X), len(common)), X.dtype), np.empty((n, len(common)), X.dtype)
        spread(X.begin, X.length, X.indices, X.data, often, left)
        spread(Z.begin[:n], Z.length[:n], Z.indices, Z.data, often, right)
        np.dot(left, right.T, out=K)
        acc = np.empty((len(X), 16), X.dtype)
        sparse_products(starts, rows, values, Z.begin, Z.length, Z.indices, Z.data, n, often, acc, K)
        if k.geometry == "square":
            nothing = np.empty((0, 0), X.dtype)
            finish_squares(k, K, X.norms, Z.norms[:n], nothing, nothing, lower)
        else:
            finish_rows(k, K, lower)
        return K

    def diagonal(self, k: Any) -> Array:
        out = np.ones(len(self), self.dtype)
        if k.geometry == "product":
            out[:] = self.norms
            finish_rows(k, out[:, None], False)
        return out


# --- anything else ---------------------------------------------------------------------------------------------------------------


class Objects:
    """Points of any kind: strings, graphs, whatever the user's kernel understands."""

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
            if not isinstance(kernel, Matrix):
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


def evaluate(kernel: Any, X: Store, Z: Store, live: int, K: Array, lower: bool = False) -> Array:
    """k between the block X and the first points of Z, into K.  Beyond the first ``live`` points Z is empty room: there K only
    has to be finite; with ``lower`` that goes for all but what is below the diagonal."""
    if isinstance(kernel, Sum | Product):
        left = evaluate(kernel.left, X, Z, live, np.empty_like(K))
        return kernel.combine(left, evaluate(kernel.right, X, Z, live, K), out=K)  # type: ignore[no-any-return, arg-type]
    if not isinstance(kernel, Matrix | Pairwise):
        return X.kernel(kernel, Z, K, lower)  # type: ignore[union-attr, arg-type]
    K[:, live:] = 0.0
    if isinstance(kernel, Pairwise):
        K[:, :live] = X.kernel(kernel, Z, np.empty((len(X), live), K.dtype))  # type: ignore[union-attr, arg-type]
    elif live:
        K[:, :live] = _asked(kernel, X.plain(), Z.take(slice(live)).plain(), (len(X), live))
    return K


def diagonal(kernel: Any, X: Store) -> Array:
    """k(x, x) of each point of the block."""
    if isinstance(kernel, Sum | Product):
        return kernel.combine(diagonal(kernel.left, X), diagonal(kernel.right, X))  # type: ignore[no-any-return, arg-type]
    if not isinstance(kernel, Matrix):
        return X.diagonal(kernel)  # type: ignore[union-attr]
    out = np.empty(len(X), X.dtype)
    for i in range(len(X)):
        one = X.take(slice(i, i + 1)).plain()
        out[i] = _asked(kernel, one, one, (1, 1))[0, 0]
    return out


def _asked(kernel: Matrix, X: Any, Z: Any, shape: tuple[int, int]) -> Array:
    try:
        K = np.asarray(kernel.function(X, Z), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the kernel callable must return a matrix of numbers; it failed with: {error}") from error
    if K.shape != shape:
        raise ValueError(
            f"the kernel callable returned shape {K.shape} for {shape[0]} and {shape[1]} points; it must return {shape}"
        )
    if not np.isfinite(K).all():
        raise ValueError("the kernel callable returned NaN or infinity; kernel values must be finite")
    return K


def matrix(kernel: Any, X: Any, Z: Any) -> Array:
    """The kernel matrix between the rows of X and of Z.

    >>> from onkel import Linear
    >>> matrix(Linear(), [[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]])
    array([[11., 17.]])
    """
    kernel = as_kernel(kernel)
    left = read(X, kernel)
    right = read(Z, kernel, left.dtype)
    if left.width != right.width:
        raise ValueError(f"X has {left.width} features and Z has {right.width}; they must agree")
    return evaluate(kernel, left, right, len(right), np.empty((len(left), len(right)), left.dtype))
