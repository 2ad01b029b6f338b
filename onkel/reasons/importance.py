"""Which features matter: the running mean of |Shapley value| over a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.reasons.explain import explain
from onkel.reasons.models import explain_model


class Importance:
    """The mean of |Shapley value| over the examples that were added; see :func:`importance`.

    values   the means, one for each feature; nothing before the first example
    n        how many examples they were taken over
    """

    def __init__(self, model: Any, state: Any, fade: float, background: Any):
        self.model, self.state, self.fade, self.background = model, state, fade, background
        self.n, self._weight = 0, 0.0
        self._sum: NDArray[np.float64] = np.zeros(0)
        self.names: list[str] | None = None

    @property
    def values(self) -> NDArray[np.float64]:
        return self._sum / self._weight if self._weight else self._sum

    def add(self, X: Any) -> Importance:
        """Take in rows, in the order of time, explained by the model as it is now; say it before the model learns them."""
        rows = X.to_numpy() if hasattr(X, "to_numpy") else X
        for i in range(rows.shape[0] if hasattr(rows, "shape") else len(rows)):
            if self.state is None:
                why = explain_model(self.model, rows[i], None, self.background)
            else:
                why = explain(self.model, self.state, rows[i], background=self.background)
            if not len(self._sum):
                self._sum, self.names = np.zeros(len(why.shapley)), why.names
            self._sum = self.fade * self._sum + np.abs(why.shapley)
            self._weight = self.fade * self._weight + 1.0
            self.n += 1
        return self

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """The n features that matter most, by name."""
        order = np.argsort(-self.values, kind="stable")[:n]
        return [(f"x[{j}]" if self.names is None else self.names[j], float(self.values[j])) for j in order]

    def __str__(self) -> str:
        return f"Over {self.n} examples: " + ", ".join(f"{name} {value:.3g}" for name, value in self.top())

    def plot(self, n: int = 15, theme: str = "light") -> Any:
        """A figure with the n features that matter most as bars."""
        from onkel import plots
        from onkel.reasons.drawing import bars

        top = self.top(n)
        with plots.style(theme):
            figure, (axes,) = plots.panels(1, width=5.6, height=1.4 + 0.36 * max(len(top), 3))
            bars(axes, [value for _, value in top], [name for name, _ in top], theme)
            axes.set(title=f"What mattered in {self.n} examples", xlabel="mean |Shapley value|")
        return figure


def importance(model: Any, X: Any = None, *, state: Any = None, memory: float | None = None, background: Any = None) -> Importance:
    """How much each feature matters to a model: the running mean of |Shapley value| over the rows of X, and of those added later.

    ``model`` is an estimator, or a learner with its ``state``.  ``memory`` is over about how many of the last examples the mean
    runs (None: over all of them).

    >>> import numpy as np, onkel
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = onkel.KernelRegressor(budget=50).partial_fit(X, X[:, 1])
    >>> seen = importance(model, X[:100])
    >>> [name for name, _ in seen.top(1)]
    ['x[1]']
    """
    if memory is not None and not memory >= 1:
        raise ValueError(f"memory must be a number of examples, at least 1, or None for all; got {memory!r}")
    if state is None and not hasattr(model, "explain"):
        raise TypeError(f"importance: give an estimator that has learned, or a learner with state=...; got {model!r:.80}")
    made = Importance(model, state, 1.0 if memory is None else 1.0 - 1.0 / memory, background)
    return made if X is None else made.add(X)
