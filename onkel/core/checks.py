"""What may come in, checked once at the door, and what to say where something may not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.loop import layout as at
from onkel.core.points import read as points
from onkel.core.points.dense import Rows
from onkel.core.points.read import Store
from onkel.core.state import State

_TARGETS = {"signs": "+1 and -1", "reals": "real numbers", "codes": "class codes"}


def block_of(X: Any, kernel: Any, state: State) -> Store:
    """X as a checked block of points that fits the state."""
    block = points.read(X, kernel, state.slots.dtype if state.width else None)
    if state.width and block.width != state.width:
        if state.width < 0 or block.width < 0:
            raise ValueError("X: this model has learned from objects of one kind; numbers and other objects do not mix")
        raise ValueError(f"X has {block.width} features, but this model was trained with {state.width}")
    if state.width and not is_same_kind(block, state):
        raise ValueError("X: sparse and dense rows do not mix in one model; convert X to the kind it first learned from")
    return block


def check_state(state: State, made_for: dict[str, Any]) -> None:
    """Refuse a state that another learner has made: its arrays are laid out for that one's outputs, trace, budget and kernel."""
    outputs, rows = made_for["number of scores"], state.base // max(state.m, 1)
    other = state.made_for or {"number of scores": state.m, "step with a trace": rows > 1}
    for what, has in other.items():
        if made_for[what] != has:
            raise ValueError(
                f"state: it was made by a learner of another {what} ({has!r:.80}, not {made_for[what]!r:.80}). Go on with that "
                "learner, or start anew from learner.init(); step sizes, lam, C, nu and a loss's parameters may change"
            )
    if state.m != outputs:
        raise ValueError(f"state: it has {state.m} scores, and this learner {outputs}; start anew from learner.init()")


def checked_targets(y: Any, loss: Any, outputs: int, n: int) -> NDArray[np.float64]:
    """y as checked numbers."""
    kind = loss.targets
    if kind == "none":
        return np.ones(n)
    if y is None:
        raise ValueError(f"y is missing: {type(loss).__name__} needs a target for each example")
    try:
        given = np.asarray(y)
        if given.dtype.kind == "c":
            raise TypeError
        targets = np.array(given, dtype=np.float64)  # a copy: the loop is compiled for arrays that may be written
    except (TypeError, ValueError):
        raise ValueError(f"y must be real numbers: {_TARGETS[kind]}; got {y!r:.80}") from None
    if targets.shape != (n,):
        raise ValueError(f"y must have one entry for each of the {n} examples, shape ({n},); got shape {targets.shape}")
    if not np.isfinite(targets).all():
        raise ValueError("y holds NaN or infinity; every target must be finite")
    if kind == "signs":
        bad = np.abs(targets) != 1.0
    elif kind == "codes":
        bad = (targets != np.floor(targets)) | (targets < 0) | (targets >= outputs)
    else:
        return targets
    if bad.any():
        allowed = _TARGETS[kind] if kind == "signs" else f"class codes 0 .. {outputs - 1}"
        raise ValueError(f"y must hold {allowed} for {type(loss).__name__}; got {targets[bad][0]:g}")
    return targets


def is_same_kind(block: Store, state: State) -> bool:
    return isinstance(block, Rows) if state.store is None else type(block) is type(state.store)


def check_threads(threads: Any) -> None:
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise ValueError(f"threads must be a whole number, at least 1; got {threads!r}")


def checked_weights(given: Any, n: int) -> NDArray[np.float64]:
    try:
        weight = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        weight = np.full(1, np.nan)
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.shape != (n,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(f"sample_weight must be {n} finite numbers, none of them negative; got {given!r:.80}")
    return weight


def failure(code: int, row: int) -> Exception:
    if code == at.NOT_CONVEX:
        return ValueError(
            f"the loss given to onkel.loss is not convex, or its derivative does not belong to its value, at example {row} of this "
            "call; check both functions there"
        )
    return FloatingPointError(
        f"the model left the range of finite numbers at example {row} of this call; nothing was changed. "
        "Scale the data, or take a smaller eta, a kernel that does not overflow, or eta_max for adaptive steps"
    )


def checked_ids(given: Any, n: int) -> list[Any]:
    """Ids as plain whole numbers or strings, one for each example."""
    ids = given.tolist() if hasattr(given, "tolist") else list(given) if not isinstance(given, str | bytes) else [given]
    if not isinstance(ids, list) or len(ids) != n:
        raise ValueError(f"ids must be one for each of the {n} examples; got {len(ids) if isinstance(ids, list) else 1}")
    for one in ids:
        if isinstance(one, bool) or not isinstance(one, int | str):
            raise ValueError(f"ids must be whole numbers or strings; got {one!r:.80}")
    return ids
