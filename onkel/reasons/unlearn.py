"""Forgetting on demand: dropping somebody's terms, with a bound on what is left, or exactly, by replay, with a certificate."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.checks import checked_ids
from onkel.core.ids import remembered
from onkel.core.keep import keep_slots
from onkel.core.learner import Learner
from onkel.core.maths.kernels import Matern
from onkel.core.maths.steps import Explicit, Implicit
from onkel.core.state import State
from onkel.reasons.convex import convex
from onkel.reasons.factors import factors

# How steep the slope of a loss is: explicit steps below 2/(this k(x, x)) never move two models apart.
CURVATURE = {"Square": lambda loss: 1.0, "Logistic": lambda loss: 0.25, "Huber": lambda loss: 1.0 / loss.sigma}


def forget(learner: Learner, state: State, ids: Iterable[Any]) -> tuple[State, float]:
    """Drop the terms of all stored examples with these ids; returns the state and a bound on what else they left behind.

    The bound is on the distance, in the kernel's space, to a model that never saw these stored examples; |f(x) - f'(x)| is at
    most that times sqrt(k(x, x)).  It is infinite where nothing can be proved; :func:`unlearn` is exact.

    >>> import onkel
    >>> learner = onkel.ilk(onkel.RBF(1.0), onkel.Hinge(), lam=0.1)
    >>> state, _ = learner.learn(learner.init(), [[0.0], [1.0], [5.0]], [1, -1, 1], ids=["ann", "bob", "ann"])
    >>> state, left = forget(learner, state, ["bob"])
    >>> state.ids, left < 3
    (['ann', 'ann'], True)
    """
    own = state.ids
    if own is None:
        raise ValueError("this state keeps no ids: give them when learning, learner.learn(state, X, y, ids=...)")
    wanted = _wanted(ids)
    unknown = wanted - set(own)
    if unknown:
        raise ValueError(
            f"no stored point has the id {_some(unknown)}: never learned, or its points have left the budget; "
            "a state knows the ids of its points only. To be sure, replay the stream with onkel.unlearn"
        )
    gone = np.array([one in wanted for one in own])
    order, coef, born = state.order, state.coef, state.born
    left = sum(
        left_behind(learner, state.t - int(born[slot]), float(np.abs(np.sum(coef[i])))) for i, slot in enumerate(order) if gone[i]
    )
    kept = keep_slots(state, learner, order[~gone])
    kept.known = remembered(kept.known, kept.t, [], kept.born)
    return kept, min(float(left), 2.0 * largest_norm(learner))


def left_behind(learner: Learner, age: int, coef: float) -> float:
    """How far a model without the term of one example, learned ``age`` steps ago, may lie from one that never saw it.

    Steps that never move two models apart, the implicit ones of every convex loss and short explicit ones of smooth losses,
    bring them together by s = 1 - eta lam or 1/(1 + eta lam) each; docs/maths.md, section 9.
    """
    step, loss, X = learner.step, convex(learner.loss), reach(learner.kernel)
    if loss is None or learner.nu is not None or learner.offset or not isinstance(step, Explicit | Implicit) or callable(step.eta):
        return math.inf
    c, eta, lam = loss.c * step.C, float(step.eta), step.lam
    if isinstance(step, Explicit):
        bend = CURVATURE.get(loss.name)
        if bend is None or eta * step.C * bend(learner.loss) * X * X > 2.0 * (1.0 - eta * lam):
            return math.inf
    s = 1.0 - eta * lam if isinstance(step, Explicit) else 1.0 / (1.0 + eta * lam)
    first = 2.0 * eta * c * X if lam > 0 else eta * c * X
    budget = learner.budget
    if budget.window is not None or (budget.size is not None and (budget.drop not in ("oldest", "smallest") or lam == 0)):
        return math.inf
    drops = 0.0 if budget.size is None else 2.0 * eta * c * X * s**budget.size / (1.0 - s)
    return first * s**age + drops + coef * X


def largest_norm(learner: Learner) -> float:
    """No hypothesis is longer than c X/lam, whatever the budget drops; infinity where that does not hold."""
    step, loss = learner.step, convex(learner.loss)
    if loss is None or learner.offset or not isinstance(step, Explicit | Implicit) or not step.lam > 0:
        return math.inf
    if learner.budget.drop not in ("oldest", "smallest"):
        return math.inf
    return loss.c * step.C * reach(learner.kernel) / step.lam


def reach(kernel: Any) -> float:
    """The largest sqrt(k(x, x)) there can be, infinite for kernels that grow with x."""
    if isinstance(kernel, Matern):
        return 1.0
    try:
        terms = factors(kernel)
    except TypeError:
        return math.inf
    return math.inf if any(any(term.q[1:]) for term in terms) else math.sqrt(sum(term.q[0] for term in terms))


# --- exact forgetting ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forgotten:
    """What an exact forgetting attests; all digests are SHA-256.

    parameters  of the learner's description;  stream: of the examples that stay, in their order;  state: of the model's numbers
    gone        of the ids that had to go, each alone, so that they can be looked up but not read off
    examples    how many stay, and how many went;  replayed_from: how many of the first ones a snapshot already held
    """

    parameters: str
    stream: str
    state: str
    gone: list[str]
    stay: int
    went: int
    replayed_from: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def unlearn(
    model: Any, data: tuple[Any, Any, Any], gone: Iterable[Any], snapshots: Iterable[Any] | None = None
) -> tuple[Any, Forgotten]:
    """The state of a run over (X, y, ids) that never saw the examples whose id is in ``gone``, and a certificate.

    ``model`` is a learner, or an estimator (then an estimator comes back).  ``snapshots`` are states, or snapshots of the
    estimator, taken along the stream; the newest from before the first of the examples spares replaying what came earlier.

    >>> import numpy as np, onkel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3)); y = np.sign(X[:, 0]); ids = np.arange(60)
    >>> learner = onkel.silk(onkel.RBF(1.0), onkel.Hinge(), budget=10)
    >>> state, certificate = unlearn(learner, (X, y, ids), [3, 5])
    >>> kept = np.delete(ids, [3, 5])
    >>> never, _ = learner.learn(learner.init(), X[kept], y[kept])
    >>> bool(np.array_equal(state.coef, never.coef)), certificate.stay, certificate.went
    (True, 58, 2)
    """
    X, y, names, stays, wanted = _split(data, gone)
    first = int(np.flatnonzero(~stays)[0])
    start: Any = None
    for held in snapshots or []:
        t = _clock(held)
        if t <= first and (start is None or t > _clock(start)):
            start = held
    begin = 0 if start is None else _clock(start)
    keep = np.flatnonzero(stays)
    made = _replay(model, start, X, y, names, keep[keep >= begin])
    certificate = Forgotten(
        parameters=digest(_described(model)),
        stream=stream_digest(X, y, keep),
        state=state_digest(_state(made)),
        gone=sorted(digest(one) for one in wanted),
        stay=len(keep),
        went=int((~stays).sum()),
        replayed_from=begin,
    )
    return made, certificate


def verify(
    certificate: Forgotten | dict[str, Any], model: Any, state: Any = None, data: tuple[Any, Any, Any] | None = None
) -> list[str]:
    """What speaks against a certificate of :func:`unlearn`; nothing, if it holds.

    Compares the description and the state (``state``, or the estimator itself) with the digests; with ``data`` also whether
    those who had to go are not among the examples, or are left out, and whether a replay gives the same state.
    """
    c = certificate if isinstance(certificate, Forgotten) else Forgotten(**certificate)
    against = []
    if digest(_described(model)) != c.parameters:
        against.append("the learner's description is another one")
    if state_digest(_state(model if state is None else state)) != c.state:
        against.append("the state is another one")
    if data is None:
        return against
    X, y, names = data
    ids = checked_ids(names, _length(X))
    stays = np.array([digest(one) not in c.gone for one in ids])
    keep = np.flatnonzero(stays)
    if stream_digest(X, y, keep) != c.stream:
        against.append("the examples that stay are others, or in another order")
    elif state_digest(_state(_replay(model, None, X, y, ids, keep))) != c.state:
        against.append("a replay of the examples that stay ends in another state")
    return against


def digest(value: Any) -> str:
    """SHA-256 of a number, a string, an array or a description."""
    h = hashlib.sha256()
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        h.update(f"{value.dtype.str}{value.shape}".encode())
        h.update(np.ascontiguousarray(value).tobytes())
    elif hasattr(value, "tocsr"):
        for part in (value.data, value.indices, value.indptr, np.array(value.shape)):
            h.update(digest(np.asarray(part)).encode())
    else:
        h.update(f"{type(value).__name__} {value!r}".encode())
    return h.hexdigest()


def state_digest(state: State) -> str:
    """Of all numbers that predictions and further steps depend on, in the order of the examples."""
    parts = [state.t, state.coef, state.trace_coef, np.atleast_1d(state.offset), state.born[state.order]]
    return digest("".join(digest(part) for part in [*parts, state.points if state.size else 0]))


def stream_digest(X: Any, y: Any, keep: NDArray[np.int64]) -> str:
    """Of the examples with these numbers, in their order."""
    return digest(digest(_taken(X, keep)) + digest(None if y is None else np.asarray(y)[keep]))


def _taken(X: Any, keep: NDArray[np.int64]) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[keep]
    return X[keep] if hasattr(X, "shape") else [X[i] for i in keep]


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _described(model: Any) -> str:
    return repr(model) if isinstance(model, Learner) else f"{type(model).__name__} {sorted(model.get_params().items())!r}"


def _state(made: Any) -> State:
    return made if isinstance(made, State) else made.state_


def _clock(held: Any) -> int:
    return _state(held).t


def _replay(model: Any, start: Any, X: Any, y: Any, ids: list[Any], keep: NDArray[np.int64]) -> Any:
    rows, targets = _taken(X, keep), None if y is None else np.asarray(y)[keep]
    if isinstance(model, Learner):
        state = model.init() if start is None else start
        named = [ids[i] for i in keep]
        return model.learn(state, rows, targets, ids=named)[0] if len(keep) else state.copy()
    from sklearn.base import clone

    made = clone(model) if start is None else start.snapshot()
    return made.partial_fit(rows, *([] if targets is None else [targets])) if len(keep) else made


def _split(data: Any, gone: Iterable[Any]) -> tuple[Any, Any, list[Any], NDArray[np.bool_], set[Any]]:
    try:
        X, y, given = data
    except (TypeError, ValueError):
        raise ValueError("data must be (X, y, ids); y is None for novelty") from None
    ids, wanted = checked_ids(given, _length(X)), _wanted(gone)
    unknown = wanted - set(ids)
    if unknown or not wanted:
        raise ValueError(f"no example has the id {_some(unknown)}; check ids and gone" if unknown else "gone is empty: give ids")
    return X, y, ids, np.array([one not in wanted for one in ids]), wanted


def _wanted(ids: Any) -> set[Any]:
    given = [ids] if isinstance(ids, str | bytes | int | np.integer) else list(ids)
    return set(checked_ids(np.asarray(given) if given and isinstance(given[0], np.generic) else given, len(given)))


def _some(ids: set[Any]) -> str:
    return ", ".join(map(repr, sorted(ids, key=str)[:5])) + (" and others" if len(ids) > 5 else "")
