"""The pictures of docs/explain.md and docs/theory.md: a digit, an alert, a meter that drifts, a regret below its bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import onkel
from onkel import plots
from onkel.reasons.change import movement


def draw(folder: Path) -> list[Path]:
    """Write the pictures into the folder; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, figure in (
        ("explain_digit", digit()),
        ("explain_alert", alert()),
        ("explain_meter", meter()),
        ("theory_regret", regret()),
    ):
        made.append(folder / f"{name}.png")
        figure.savefig(made[-1], dpi=70)
    return made


def digits() -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def digit() -> Any:
    """A digit that the model found hard, beside those that spoke for and against what it said."""
    X, y = digits()
    model = onkel.KernelClassifier(budget=200, gamma=0.5, drop="smallest").partial_fit(X[:1500], y[:1500])
    scores = np.sort(model.decision_function(X[1500:]), axis=1)
    hard = 1500 + int(np.argmin(scores[:, -1] - scores[:, -2]))
    return model.explain(X[hard]).plot(4, shape=(8, 8))


def alert() -> Any:
    """Small numbers are familiar; an eight is an alert.  Which pixels made it one."""
    X, y = digits()
    usual = X[np.isin(y, (0, 1, 2))]
    model = onkel.NoveltyDetector(budget=100, gamma=0.3).partial_fit(usual)
    eight = X[np.flatnonzero(y == 8)[3]]
    return model.explain(eight).plot(4)


def meter() -> Any:
    """A day's load that shifts by six hours after 3000 readings: how far the model moved, each 50."""
    rng = np.random.default_rng(0)
    hour = np.arange(6000) % 96 / 4.0
    shift = np.where(np.arange(6000) < 3000, 0.0, 6.0)
    load = np.sin((hour - shift) * 2 * np.pi / 24) + 0.3 * np.sin((hour - shift) * 4 * np.pi / 24) + 0.2 * rng.normal(size=6000)
    learner = onkel.silk(onkel.RBF(2.0), onkel.EpsilonInsensitive(0.1), C=0.1, lam=0.01, budget=100)
    times, moved = movement(learner, hour[:, None], load, every=50, back=10)
    with plots.style():
        figure, (axes,) = plots.panels(1, width=7.2, height=3.2)
        axes.plot(times, moved, color=plots.colour("blue"))
        axes.axvline(3000, color=plots.colour("orange"), linestyle="--")
        axes.set(title="How far the model moved in 500 readings", xlabel="readings", ylabel="share of its norm", ylim=(0, None))
    return figure


def regret() -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    y = np.sign(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=1000))
    return onkel.certify(onkel.norma(onkel.RBF(1.0), onkel.Hinge(), eta=0.05, lam=0.0), X, y).plot()
