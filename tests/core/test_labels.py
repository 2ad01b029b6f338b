"""Label sets: trees and graphs against brute force, the limits of what they take, and that they are learned, saved and loaded."""

from __future__ import annotations

import math
import pickle
import time
from itertools import pairwise, permutations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import expm

import onkel
from onkel import RBF, Labels, Structured, persist
from tests.core import naive


def some_tree(seed, n=12):
    """Parents of a tree whose root need not be node 0."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n).tolist()
    parents = [-1] * n
    for i in range(1, n):
        parents[order[i]] = order[rng.integers(i)]
    return parents


def some_graph(seed, n=6, extra=5):
    """Edges of a connected graph with lengths of quarters, and of one that none of its paths uses."""
    rng = np.random.default_rng(seed)
    edges = {(i, int(rng.integers(i))): float(rng.integers(1, 9)) / 4 for i in range(1, n)}
    for _ in range(extra):
        u, v = sorted(rng.choice(n, 2, replace=False).tolist(), reverse=True)
        edges.setdefault((u, v), float(rng.integers(1, 9)) / 4)
    return [(u, v, length) for (u, v), length in edges.items()]


def brute_force(edges, nodes):
    """The shortest of all paths, each tried."""
    length = {(u, v): w for a, b, w in edges for u, v in ((a, b), (b, a))}
    best = np.full((len(nodes), len(nodes)), math.inf)
    for many in range(1, len(nodes) + 1):
        for path in permutations(range(len(nodes)), many):
            steps = [length.get((nodes[a], nodes[b]), math.inf) for a, b in pairwise(path)]
            best[path[0], path[-1]] = min(best[path[0], path[-1]], sum(steps))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_a_tree_is_its_sets_of_ancestors(seed):
    parents = some_tree(seed)
    cost, kappa = naive.tree(parents)
    labels = Labels.tree(parents)
    np.testing.assert_array_equal(labels.cost, cost)
    np.testing.assert_array_equal(labels.kernel, kappa)


def test_several_roots_have_nothing_in_common():
    np.testing.assert_array_equal(Labels.tree([-1, 0, 0, -1]).kernel, [[2, 1, 0], [1, 2, 0], [0, 0, 1]])
    assert Labels.tree([-1, -1, -1]).plain


@pytest.mark.parametrize("parents", [[-1, *range(20_000)], [-1] + [0] * 700, [-1] + [i // 2 for i in range(1400)]])
def test_large_trees_take_no_longer_than_writing_them_down(parents):
    start = time.process_time()
    Labels.tree(parents)
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("seed", range(6))
def test_a_graph_is_its_shortest_paths(seed):
    edges = some_graph(seed)
    expected = brute_force(edges, list(range(6)))
    np.testing.assert_array_equal(Labels.graph(edges).cost, expected)
    matrix = np.zeros((6, 6))
    for u, v, length in edges:
        matrix[u, v] = matrix[v, u] = length
    for given in (matrix, sp.csr_array(matrix), sp.coo_matrix(matrix), [(v, u, w) for u, v, w in reversed(edges)]):
        assert Labels.graph(given) == Labels.graph(edges)
    np.testing.assert_array_equal(Labels.graph(edges, [4, 0, 3]).cost, expected[np.ix_([4, 0, 3], [4, 0, 3])])


@pytest.mark.parametrize("seed", range(6))
def test_on_a_tree_of_half_lengths_it_is_the_tree(seed):
    parents = some_tree(seed)
    tree = Labels.tree(parents)
    leaves = [i for i in range(len(parents)) if i not in parents]
    edges = [(node, parent, 0.5) for node, parent in enumerate(parents) if parent >= 0]
    np.testing.assert_array_equal(Labels.graph(edges, leaves).cost, tree.cost)
    assert Labels.graph(edges, leaves, tree.kernel) == tree


def test_diffusion_is_the_heat_that_arrives():
    edges = some_graph(1)
    laplacian = np.zeros((6, 6))
    for u, v, length in edges:
        for a, b in ((u, v), (v, u)):
            laplacian[a, b] -= 1 / length
            laplacian[a, a] += 1 / length
    for beta in (0.0, 0.3, 2.0):
        heat = expm(-beta * laplacian)
        own = np.sqrt(np.diag(heat))
        np.testing.assert_allclose(Labels.graph(edges, diffusion=beta).kernel, heat / np.outer(own, own), atol=1e-12)
    assert Labels.graph(edges, diffusion=0.0).plain
    some = Labels.graph(edges, [5, 2], diffusion=2.0).kernel
    np.testing.assert_array_equal(some, Labels.graph(edges, diffusion=2.0).kernel[np.ix_([5, 2], [5, 2])])


def test_nodes_may_have_names_and_lengths_may_be_nothing():
    roads = [("b", "a", 2.0), ("c", "b", 0.0), ("a", "b", 2.0)]
    with pytest.raises(ValueError, match=r"length 0.*give a kernel"):
        Labels.graph(roads)
    np.testing.assert_array_equal(Labels.graph(roads, kernel=np.eye(3)).cost, [[0, 2, 2], [2, 0, 0], [2, 0, 0]])
    lost = sp.coo_array(([0.0, 0.0, 1.0, 1.0], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    np.testing.assert_array_equal(Labels.graph(lost, kernel=np.eye(3)).cost[0], [0, 0, 1])  # what is stored is an edge
    assert Labels.graph([(0, "a", 1.0), ("a", (2, 3), 1.0)]).cost[0, 2] == 2.0


BAD = {
    "two parts": (lambda: Labels.graph([(0, 1, 1.0), (2, 3, 1.0)]), "connected", "0", "2"),
    "a node alone": (lambda: Labels.graph(np.diag([1.0, 1.0], 1) + np.diag([1.0, 1.0], -1), [0, 1]), None),
    "matrix with a node alone": (lambda: Labels.graph(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0.0]])), "connected", "2"),
    "a part without labels": (lambda: Labels.graph([(0, 1, 1.0), (2, 3, 1.0)], [0, 1]), "connected"),
    "negative": (lambda: Labels.graph([(0, 1, -1.0)]), "(0, 1)", "at least 0", "-1.0"),
    "nan": (lambda: Labels.graph([(0, 1, math.nan)]), "(0, 1)", "finite", "nan"),
    "infinite": (lambda: Labels.graph([(0, 1, math.inf)]), "finite", "inf"),
    "a word": (lambda: Labels.graph([(0, 1, "far")]), "number", "'far'"),
    "nan in a matrix": (lambda: Labels.graph(np.array([[0, math.nan], [math.nan, 0]])), "(0, 1)", "finite", "nan"),
    "to itself": (lambda: Labels.graph([(0, 1, 1.0), (1, 1, 1.0)]), "itself", "1"),
    "a diagonal": (lambda: Labels.graph(np.ones((2, 2))), "itself"),
    "two lengths": (lambda: Labels.graph([(0, 1, 1.0), (1, 0, 2.0)]), "two lengths", "1", "2"),
    "asymmetric": (lambda: Labels.graph(np.array([[0, 1.0], [2.0, 0]])), "two lengths"),
    "one way": (lambda: Labels.graph(np.array([[0, 1.0], [0, 0]])), "symmetric", "(0, 1)"),
    "not square": (lambda: Labels.graph(np.ones((2, 3))), "square", "(2, 3)"),
    "no edges": (lambda: Labels.graph([]), "no edges", "Labels.flat"),
    "pairs": (lambda: Labels.graph([(0, 1)]), "edges", "(u, v, length)"),
    "a number": (lambda: Labels.graph(3), "edges", "3"),
    "unknown label": (lambda: Labels.graph([(0, 1, 1.0)], [0, 7]), "labels", "7"),
    "a label twice": (lambda: Labels.graph([(0, 1, 1.0)], [1, 1]), "labels", "once"),
    "no label": (lambda: Labels.graph([(0, 1, 1.0)], []), "labels", "at least one"),
    "labels a number": (lambda: Labels.graph([(0, 1, 1.0)], 3), "labels"),
    "kernel of all nodes": (lambda: Labels.graph([(0, 1, 1.0), (1, 2, 1.0)], [0, 1], np.eye(3)), "kernel", "3"),
    "diffusion": (lambda: Labels.graph([(0, 1, 1.0)], diffusion=-1.0), "diffusion", "at least 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_graphs_are_refused(case):
    make, *words = BAD[case]
    if words == [None]:
        assert make().m == 2
        return
    with pytest.raises(ValueError) as caught:
        make()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_a_graph_is_learned_as_the_twin_learns_it_and_survives():
    edges = some_graph(3)
    labels = Labels.graph(edges, [0, 2, 3, 5])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0)
    learner = onkel.silk(RBF(0.7), Structured(labels), budget=20)
    state, trace = learner.learn(learner.init(), X, y)
    twin = naive.Naive(
        naive.rbf(0.7), "structured", "implicit", eta=1.0, lam=0.01, budget=20, drop="smallest", labels=(labels.cost, labels.kernel)
    )
    np.testing.assert_allclose(trace.scores, twin.run(X, y)["scores"], atol=1e-9)
    again, theirs = persist.loads(persist.dumps((learner, state)))
    assert again == learner
    assert pickle.loads(pickle.dumps(labels)) == labels
    np.testing.assert_array_equal(again.score(theirs, X[:9]), learner.score(state, X[:9]))
    model = onkel.KernelClassifier(labels=labels).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 3])
