"""The algorithms under comparison and the one grid on which each of them is tuned.

All rules are written with the same two numbers: the step `eta`, and `forget` = eta * lam, the share of the past that is
lost at each example (NORMA and SVMD scale by 1 - forget, ILK and SILK by 1/(1 + forget)). A grid over these two is then
the same grid for everybody, and has no corner that only one algorithm may enter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from onkel.core import recipes

ETAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
FORGETS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)

Stream = tuple[np.ndarray, np.ndarray]


def make(
    name: str,
    kernel: Any,
    loss: Any,
    *,
    eta: Any = 1.0,
    forget: float = 0.0,
    budget: int | None = None,
    mu: float = 0.1,
    decay: float = 0.95,
) -> Any:
    """The learner called `name`; mu and decay are SVMD's and not tuned."""
    lam = forget / eta if forget else 0.0
    options: dict[str, Any] = {"eta": eta, "lam": lam, "budget": budget, "mu": mu, "decay": decay, "eta_max": eta_ceiling(lam)}
    if name == "SILK, merging":
        options["drop"] = "merge"
    return recipes.named(name, kernel, loss, **options)


def eta_ceiling(lam: float) -> float | None:
    """SVMD may raise its step until 1 - eta lam turns negative; the tuned rows stop it at 1/lam."""
    return 1.0 / lam if lam > 0 else None


def grid(**axes: Sequence[Any]) -> list[dict[str, Any]]:
    """
    >>> grid(eta=(0.1, 1.0), forget=(0.0,))
    [{'eta': 0.1, 'forget': 0.0}, {'eta': 1.0, 'forget': 0.0}]
    """
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


def mistakes(learner: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """One pass, test then learn: was the prediction of each example wrong?"""
    return np.asarray(learner.learn(learner.init(), X, y)[1].mistake, bool)


def tune(
    build: Callable[..., Any], candidates: Iterable[dict[str, Any]], streams: Sequence[Stream]
) -> tuple[dict[str, Any], float]:
    """The parameters with the fewest mistakes over the streams, and their mean mistakes; the first of equals wins."""
    best: dict[str, Any] = {}
    lowest = np.inf
    for parameters in candidates:
        learner = build(**parameters)
        try:
            total = float(np.mean([mistakes(learner, X, y).sum() for X, y in streams]))
        except (ArithmeticError, FloatingPointError):  # an adaptive step that ran away has lost
            continue
        if total < lowest:
            best, lowest = parameters, total
    return best, lowest


def curve(values: np.ndarray, points: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Running mean of `values` at about `points` times, dense at the start."""
    n = len(values)
    t = np.unique(np.geomspace(1, n, points).round().astype(int))
    return t, np.cumsum(values)[t - 1] / t


def described(parameters: dict[str, Any]) -> str:
    """
    >>> described({"eta": 0.1, "forget": 0.001, "budget": None})
    'eta 0.1, forget 0.001'
    """
    return ", ".join(f"{k} {v:g}" for k, v in parameters.items() if isinstance(v, int | float))
