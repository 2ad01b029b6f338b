"""Explaining what an estimator says: its learner's scores, with its classes and the names of its features."""

from __future__ import annotations

from typing import Any

import numpy as np

from onkel.reasons.explain import explained, one
from onkel.reasons.explanation import Explanation


def explain_model(model: Any, x: Any, label: Any = None, background: Any = None) -> Explanation:
    """Behind ``model.explain``: of two classes ``decision_function`` is explained, of more the score of one class, by default
    the predicted one; of a regressor the prediction, of a novelty detector how well x is known."""
    learner, state = model.learner_, model.state_
    row = one(learner, state, x.to_numpy() if hasattr(x, "to_numpy") else x)
    names = getattr(model, "feature_names_in_", None)
    names = None if names is None else [str(name) for name in names]
    classes = getattr(model, "classes_", None)
    if classes is None:
        if label is not None:
            raise ValueError(f"label={label!r}: {type(model).__name__} has no classes; leave label out")
        novelty = hasattr(model, "offset_")
        made = explained(
            learner, state, row, np.ones(1), background=background, names=names, about="familiarity" if novelty else "f(x)"
        )
        if novelty:
            verdict = "so x is novel" if made.score < model.offset_ else "so x is familiar"
            made.notes.append(f"Novel is what lies below {model.offset_:.4g}, {verdict}.")
        return made
    weights, about = _choice(model, row, classes, label)
    made = explained(learner, state, row, weights, background=background, names=names, about=about)
    if learner.loss.targets == "codes":
        named = made.naming
        made.naming = lambda: [f"class {classes[int(code.split()[1])]}" for code in named() or []]
    return made


def _choice(model: Any, row: Any, classes: Any, label: Any) -> tuple[Any, str]:
    """Which combination of the scores is explained, and what it is called."""
    known = classes.tolist()
    if label is not None and label not in known:
        raise ValueError(f"label must be one of the classes seen so far, {known!r:.200}; got {label!r}")
    if len(known) == 1:
        return np.ones(1), f"score of {known[0]!r}"
    if len(known) == 2:
        i = 1 if label is None else known.index(label)
        return np.array([1.0, -1.0]) if i == 0 else np.array([-1.0, 1.0]), f"score of {known[i]!r} above {known[1 - i]!r}"
    if label is None:
        scores = model.learner_.score(model.state_, row if hasattr(row, "tocsr") else row[None] if hasattr(row, "shape") else [row])
        label = known[int(np.argmax(scores[0]))]
    return np.eye(len(known))[known.index(label)], f"score of {label!r}"
