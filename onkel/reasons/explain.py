"""Explaining a score: the expansion as it stands, taken at one example."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.state import State
from onkel.reasons.explanation import Explanation
from onkel.reasons.factors import factors
from onkel.reasons.shapley import similarities

Array = NDArray[np.float64]


def explain(learner: Learner, state: State, x: Any, *, label: int | None = None, background: Any = None) -> Explanation:
    """Why ``learner.score(state, [x])`` is what it is: terms over the stored points that add up to it, and Shapley values.

    Over labels it is the score of ``label`` that is explained, by default the highest.  ``background`` says what an absent
    feature is: None leaves it out of the kernel, a row of numbers puts it at that value, "stored" averages over the stored
    points, each as heavy as the others.

    >>> import onkel
    >>> learner = onkel.silk(onkel.RBF(1.0), onkel.Hinge(), budget=10)
    >>> state, _ = learner.learn(learner.init(), [[0.0, 1.0], [2.0, 0.0], [0.0, 2.0]], [1, -1, 1])
    >>> why = explain(learner, state, [0.0, 1.5])
    >>> bool(abs(why.terms.sum() + why.offset - learner.score(state, [[0.0, 1.5]])[0]) < 1e-12)
    True
    >>> print(why.text(n=1))
    score +1.192: 3 stored examples, +1.24 for and -0.0431 against it.
      +0.857 for: example 1, +1, similarity 0.882
      -0.0431 against: example 2, -1, similarity 0.0439
    Features, from +0.42 with features left out: x[0] +0.561, x[1] +0.211.
    """
    x = one(learner, state, x)
    if learner.outputs == 1:
        return explained(learner, state, x, np.ones(1), background=background)
    if label is None:
        label = int(np.argmax(np.ravel(learner.score(state, batch(x))))) if state.size else 0
    if isinstance(label, bool) or not isinstance(label, int | np.integer) or not 0 <= label < learner.outputs:
        raise ValueError(f"label must be a class code, 0 .. {learner.outputs - 1}; got {label!r}")
    return explained(learner, state, x, np.eye(learner.outputs)[label], background=background, about=f"score of class {label}")


def one(learner: Learner, state: State, x: Any) -> Any:
    """x, checked: a row of numbers, a CSR matrix of one row, or an object."""
    if type(x) is np.ndarray and x.ndim == 1 and x.dtype == np.float64 and len(x) == state.width and np.isfinite(x).all():
        return x  # the fast way: nothing else to be checked
    if hasattr(x, "tocsr"):
        block = learner.read(x, state)
    else:
        objects = state.width < 0 or (not state.width and isinstance(x, str | bytes))
        block = learner.read([x] if objects else np.asarray(x)[None] if np.ndim(x) == 1 else x, state)
    if len(block) != 1:
        raise ValueError(f"x must be one example; got {len(block)}. Explain them one by one")
    plain = block.plain()
    return plain if hasattr(plain, "tocsr") else plain[0]


def batch(x: Any) -> Any:
    """One checked example as a block of one."""
    return x if hasattr(x, "tocsr") else x[None] if isinstance(x, np.ndarray) else [x]


def explained(
    learner: Learner, state: State, x: Any, weights: Array, *, background: Any = None, names: Any = None, about: str = "score"
) -> Explanation:
    """The combination ``weights`` of the scores of a checked x, explained."""
    order = state.order
    raw = state.slots[: state.m].take(order, 1) if state.size else np.zeros((state.m, 0))
    coef = state.num[at.SCALE] * raw.astype(np.float64)
    mixed = weights if learner.outputs == 1 or learner.loss.labels.plain else learner.loss.labels.kernel @ weights
    own = coef[0] * weights[0] if state.m == 1 else mixed @ coef
    offset = float(state.num[at.NUMBERS : at.NUMBERS + state.m] @ weights)
    terms = numbers(learner.kernel)
    if state.store is None and state.size and state.slots.dtype == np.float64 and terms is not None:
        columns = state.slots[state.base + at.AUX :].copy()  # the state may go on learning
        similarity = similarities(terms, columns, x).take(order)
        points = partial(columns.T.take, order, 0)
    else:
        kept = state.points if state.size else np.zeros((0, len(x))) if isinstance(x, np.ndarray) else []
        similarity, points = row(learner.kernel, kept, x), lambda: kept
    made = Explanation(
        x=x,
        score=float(own @ similarity) + offset,
        offset=offset,
        coef=own,
        similarity=similarity,
        born=state.born.take(order),
        stored=points,
        kernel=learner.kernel,
        about=about,
        naming=partial(labels_of, learner.loss.targets, coef),
        ids=state.ids,
        names=names,
    )
    made.background = absent(background, made)
    if learner.budget.drop in ("merge", "project", "fuse"):
        made.notes.append(f"Under drop={learner.budget.drop!r} an example also speaks for those that gave way to it.")
    return made


def labels_of(targets: str, coef: Array) -> list[Any] | None:
    """What the coefficients say about the points' labels: the sign for two classes, the row's largest entry for more."""
    if targets == "signs":
        return ["+1" if a > 0 else "-1" for a in coef[0].tolist()]
    if targets == "codes":
        return [f"class {z}" for z in coef.argmax(axis=0).tolist()]
    return None


def row(kernel: Any, points: Any, x: Any) -> Array:
    """k(point, x) for all points."""
    if not (len(points) if isinstance(points, list) else points.shape[0]):
        return np.zeros(0)
    return np.asarray(kernel(batch(x), points), np.float64)[0]


@lru_cache(256)
def numbers(kernel: Any) -> Array | None:
    """The terms of a kernel as rows of numbers, how steep and then the polynomial; None where it has none."""
    try:
        terms = factors(kernel)
    except TypeError:
        return None
    table = np.zeros((len(terms), 2 + max(len(term.q) for term in terms)))
    for line, (q, square, absolute) in zip(table, terms):
        line[:2] = square, absolute
        line[2 : 2 + len(q)] = q
    return table


def absent(background: Any, made: Explanation) -> Array | None:
    """Rows that say what absent features are; None leaves them out."""
    if background is None:
        return None
    if isinstance(background, str):
        if background != "stored":
            raise ValueError(f"background must be None, a row of numbers or 'stored'; got {background!r}")
        return made.numbers()[0]
    width = len(made.numbers()[1])
    rows = np.atleast_2d(np.asarray(background, np.float64))
    if rows.ndim != 2 or rows.shape[1] != width or not np.isfinite(rows).all():
        raise ValueError(f"background must be finite numbers, {width} for each row; got shape {rows.shape}")
    return np.ascontiguousarray(rows)
