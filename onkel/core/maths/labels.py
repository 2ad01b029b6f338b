"""What the classes of a problem have to do with each other: a cost for each confusion and a kernel between labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onkel.core.maths.value import Value, checked_number, is_whole

Numbers = NDArray[np.float64]


class Labels(Value):
    """Costs Delta(y, z) and label kernel kappa(y, z) over m classes, coded 0 .. m-1.

    ``Labels.flat(m)`` is the usual multiclass problem, ``Labels.tree(parents)`` a taxonomy ([V] (62), (65)),
    ``Labels.graph(edges)`` the nodes of any graph ([V] (25)); any symmetric cost with zero diagonal and any symmetric, positive
    semi-definite kernel will do.

    >>> Labels.flat(3).cost
    array([[0., 1., 1.],
           [1., 0., 1.],
           [1., 1., 0.]])
    >>> Labels.tree([-1, 0, 0, 1, 1]).kernel      # leaves 2, 3, 4; 3 and 4 share the inner node 1
    array([[2., 1., 1.],
           [1., 3., 2.],
           [1., 2., 3.]])
    """

    cost: Numbers
    kernel: Numbers
    plain: bool  # whether the kernel is the identity

    if TYPE_CHECKING:

        def __init__(self, cost: ArrayLike, kernel: ArrayLike | None = None) -> None: ...

    def __new__(cls, cost: ArrayLike, kernel: ArrayLike | None = None) -> Labels:
        try:
            delta = np.array(cost, dtype=np.float64, ndmin=1)
            kappa = np.eye(len(delta)) if kernel is None else np.array(kernel, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Labels: cost and kernel must be square matrices of numbers; {error}") from None
        for name, matrix in (("cost", delta), ("kernel", kappa)):
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
                raise ValueError(f"Labels: {name} must be a square matrix over the classes, got shape {matrix.shape}")
            if not np.isfinite(matrix).all():
                raise ValueError(f"Labels: {name} holds NaN or infinity; give finite numbers")
            if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12):
                raise ValueError(f"Labels: {name} must be symmetric; {name}[i, j] and {name}[j, i] differ")
        if delta.shape != kappa.shape:
            raise ValueError(f"Labels: cost is over {len(delta)} classes and kernel over {len(kappa)}; they must agree")
        if (np.diag(delta) != 0).any() or (delta < 0).any():
            raise ValueError("Labels: cost must be zero on the diagonal and nowhere negative")
        plain = bool(np.array_equal(kappa, np.eye(len(kappa))))
        lowest = 1.0 if plain else float(np.linalg.eigvalsh(kappa)[0])
        if lowest < -1e-9 * max(1.0, float(np.abs(kappa).max())):
            raise ValueError(f"Labels: kernel must be positive semi-definite; its lowest eigenvalue is {lowest:.3g}")
        return tuple.__new__(cls, (delta, kappa, plain))

    @staticmethod
    def flat(m: int) -> Labels:
        """m classes that have nothing in common: every confusion costs 1, the label kernel is 1[y = z]."""
        if not is_whole(m):
            raise ValueError(f"Labels.flat: m must be a whole number of classes, at least 1; got {m!r}")
        return Labels(1.0 - np.eye(int(m)), np.eye(int(m)))

    @staticmethod
    def tree(parents: Sequence[int]) -> Labels:
        """A taxonomy: parents[i] is the parent of node i, -1 marks the root; the classes are the leaves in order of index.

        kappa counts common ancestors (a node is its own ancestor, the root counts), and
        Delta(y, z) = (kappa(y, y) + kappa(z, z) - 2 kappa(y, z)) / 2: half an edge's length along the way.
        """
        try:
            up = [int(p) for p in parents]
        except (TypeError, ValueError):
            up = []
        if not up or [p for p in up if p < -1 or p >= len(up)]:
            raise ValueError(f"Labels.tree: parents must be node numbers 0 .. {len(up) - 1}, or -1 for a root; got {parents!r}")
        kappa = _common_ancestors(up)
        own = np.diag(kappa)
        cost = 0.5 * (own[:, None] + own[None, :] - 2.0 * kappa)
        return tuple.__new__(Labels, (cost, kappa, bool(np.array_equal(kappa, np.eye(len(kappa))))))  # sound as it is made

    @staticmethod
    def graph(
        edges: Any, labels: Iterable[Any] | None = None, kernel: ArrayLike | None = None, *, diffusion: float = 1.0
    ) -> Labels:
        """Nodes of a connected graph whose edges have lengths: Delta(y, z) is the length of the shortest path.  [V] (25)

        edges      (u, v, length) for each edge, the nodes being numbers or names; or a symmetric matrix of lengths, an array in
                   which 0 means no edge, or a sparse one, whose nodes are 0 .. n-1
        labels     the nodes that are classes, in the order of their codes; all of them where not given, numbers and names in
                   ascending order
        kernel     kappa over the labels; where not given it comes by diffusion along the edges, whose conductance is 1/length:
                   exp(-diffusion L) with the graph's Laplacian L, scaled to kappa(y, y) = 1 (0 makes it the identity)

        >>> Labels.graph([("north", "hub", 1.0), ("south", "hub", 2.0), ("south", "north", 9.0)], ["north", "south"]).cost
        array([[0., 3.],
               [3., 0.]])
        """
        nodes, lengths = _lengths(edges)
        place = {node: i for i, node in enumerate(nodes)}
        try:
            chosen = list(range(len(nodes))) if labels is None else [place[label] for label in labels]
        except (KeyError, TypeError) as error:
            raise ValueError(f"Labels.graph: labels must be nodes of the graph; {error} is none") from None
        if not chosen or len(set(chosen)) < len(chosen):
            raise ValueError(f"Labels.graph: labels must name at least one node, and each of them once; got {labels!r:.80}")
        cost = _shortest(nodes, lengths, chosen)
        if kernel is None:
            time = checked_number("Labels.graph", "diffusion", diffusion, low=0)
            kernel = _diffused(nodes, lengths, time)[np.ix_(chosen, chosen)]
        return Labels(cost, kernel)

    @property
    def m(self) -> int:
        """How many classes."""
        return len(self.cost)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and np.array_equal(self.cost, other.cost) and np.array_equal(self.kernel, other.kernel)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.cost.tobytes(), self.kernel.tobytes()))

    def __repr__(self) -> str:
        return f"Labels(m={self.m}{'' if self.plain else ', related'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Labels, (self.cost, self.kernel)


# --- trees -----------------------------------------------------------------------------------------------------------------------


def _common_ancestors(up: list[int]) -> Numbers:
    """How many ancestors each two leaves share, from the parents of all nodes: the work is that of writing the matrix down.

    The leaves below a node stand side by side when they are found in depth; each pair of them is seen at the one node where
    their ways part, and shares what lies above it.
    """
    below: list[list[int]] = [[] for _ in up]
    for node, parent in enumerate(up):
        if parent >= 0:
            below[parent].append(node)
    depth, reached = [0] * len(up), 0
    found: list[int] = []  # the leaves
    spans: list[tuple[int, int, int]] = []  # (inner node, first leaf, end)
    open_nodes = [(node, -1) for node, parent in reversed(list(enumerate(up))) if parent < 0]
    while open_nodes:
        node, first = open_nodes.pop()
        if first >= 0:
            spans.append((node, first, len(found)))
            continue
        reached += 1
        depth[node] = 1 + (depth[up[node]] if up[node] >= 0 else 0)
        if not below[node]:
            found.append(node)
            continue
        open_nodes.append((node, len(found)))
        open_nodes += [(child, -1) for child in reversed(below[node])]
    if reached < len(up):
        raise ValueError("Labels.tree: following the parents runs in a circle")
    begin = {node: (first, end) for node, first, end in spans} | {leaf: (i, i + 1) for i, leaf in enumerate(found)}
    kappa = np.zeros((len(found), len(found)))
    for node, (first, _) in begin.items():
        kappa[first, first] = max(kappa[first, first], depth[node])
        for child in below[node]:  # with the leaves below the children before it
            left, right = begin[child]
            kappa[first:left, left:right] = kappa[left:right, first:left].T[:] = depth[node]
    by_index = np.argsort(found)
    return kappa[np.ix_(by_index, by_index)]


# --- graphs ----------------------------------------------------------------------------------------------------------------------


def _lengths(edges: Any) -> tuple[list[Any], dict[tuple[int, int], float]]:
    """The nodes, and the length of each edge between two of them, by their places, the lower first."""
    if hasattr(edges, "tocoo") or isinstance(edges, np.ndarray):
        nodes, found = _entries(edges)
    else:
        try:
            found = [(u, v, length) for u, v, length in edges]
            nodes = list(dict.fromkeys(node for u, v, _ in found for node in (u, v)))
        except (TypeError, ValueError):
            raise ValueError(
                f"Labels.graph: edges must be (u, v, length) for each edge, or a square matrix of lengths; got {edges!r:.80}"
            ) from None
        try:
            nodes.sort()
        except TypeError:  # names of several kinds stay in the order in which they came
            pass
    if not nodes:
        raise ValueError("Labels.graph: there are no edges; a graph needs at least one node, for one label take Labels.flat(1)")
    place = {node: i for i, node in enumerate(nodes)}
    lengths: dict[tuple[int, int], float] = {}
    for u, v, given in found:
        length = checked_number("Labels.graph", f"the length of the edge ({u!r}, {v!r})", given, low=0)
        if u == v:
            raise ValueError(f"Labels.graph: there is an edge from {u!r} to itself, which no path uses; leave it out")
        key = (min(place[u], place[v]), max(place[u], place[v]))
        if lengths.setdefault(key, length) != length:
            raise ValueError(f"Labels.graph: the edge between {u!r} and {v!r} has two lengths, {lengths[key]:g} and {length:g}")
    return nodes, dict(sorted(lengths.items()))  # sums of them do not depend on the order in which they came


def _entries(matrix: Any) -> tuple[list[int], list[tuple[int, int, float]]]:
    """The edges of a matrix: of a sparse one what is stored, of an array what is not 0."""
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"Labels.graph: a matrix of lengths must be square; got shape {tuple(matrix.shape)}")
    if isinstance(matrix, np.ndarray):
        u, v = np.nonzero(matrix)
        lengths = matrix[u, v]
    else:
        matrix = matrix.tocoo()
        u, v, lengths = matrix.row, matrix.col, matrix.data
    there = set(zip(u.tolist(), v.tolist(), strict=True))
    for a, b in there:
        if (b, a) not in there:
            raise ValueError(f"Labels.graph: a matrix of lengths must be symmetric; it has ({a}, {b}) and not ({b}, {a})")
    return list(range(matrix.shape[0])), list(zip(u.tolist(), v.tolist(), lengths.tolist(), strict=True))


def _shortest(nodes: list[Any], lengths: dict[tuple[int, int], float], chosen: list[int]) -> Numbers:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    u, v = np.array(list(lengths), int).reshape(-1, 2).T
    way = csr_array((np.fromiter(lengths.values(), float), (u, v)), shape=(len(nodes), len(nodes)))
    reach = dijkstra(way, directed=False, indices=chosen)
    if not np.isfinite(reach).all():
        row, lost = np.argwhere(~np.isfinite(reach))[0]
        raise ValueError(f"Labels.graph: the graph is not connected: no path leads from {nodes[chosen[row]]!r} to {nodes[lost]!r}")
    cost = np.asarray(reach[:, chosen], dtype=np.float64)
    return np.minimum(cost, cost.T)  # the two directions add the same lengths in another order


def _diffused(nodes: list[Any], lengths: dict[tuple[int, int], float], diffusion: float) -> Numbers:
    if diffusion == 0.0:
        return np.eye(len(nodes))
    laplacian = np.zeros((len(nodes), len(nodes)))
    for (u, v), length in lengths.items():
        if length == 0.0:
            raise ValueError(
                f"Labels.graph: the edge between {nodes[u]!r} and {nodes[v]!r} has length 0, on which nothing can diffuse; "
                "give a kernel, or diffusion=0"
            )
        conductance = 1.0 / length
        laplacian[[u, v], [v, u]] = -conductance
        laplacian[u, u] += conductance
        laplacian[v, v] += conductance
    values, vectors = np.linalg.eigh(laplacian)
    heat = (vectors * np.exp(-diffusion * np.maximum(values, 0.0))) @ vectors.T
    spread = np.sqrt(np.diag(heat))
    kappa = heat / np.outer(spread, spread)
    np.fill_diagonal(kappa, 1.0)
    return np.asarray(0.5 * (kappa + kappa.T))
