"""`onkel bench defaults`: the tables behind the estimators' defaults, predict-then-learn over C and lam on small real streams.

Needs River for its data.  Classification: share of right predictions; regression: mean absolute error after the first tenth;
novelty: ROC AUC of held-out normal and strange examples, and the share of alerts among the normal ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_friedman1
from sklearn.metrics import roc_auc_score

import onkel

LAMS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)


def arrays(stream: Any) -> tuple[np.ndarray, np.ndarray]:
    """A stream of River's as arrays."""
    rows = list(stream)
    return np.array([[float(value) for value in x.values()] for x, _ in rows]), np.array([y for _, y in rows])


def table(title: str, rows: Iterable[tuple[str, Any]], cell: Callable[[Any, float], str]) -> None:
    """Print one value for each option and each lam."""
    print(f"\n{title}\n{'':24}" + "".join(f"lam {lam:<8g}" for lam in LAMS))
    for name, option in rows:
        print(f"{name:24}" + "".join(f"{cell(option, lam):<12}" for lam in LAMS), flush=True)


def report(arguments: argparse.Namespace) -> None:
    classes()
    reals()
    novelty()


def classes() -> None:
    from river import datasets

    digits = load_digits()
    streams = {
        "bananas": arrays(datasets.Bananas()),
        "digits": (digits.data, digits.target),
        "image segments": arrays(datasets.ImageSegments()),
        "phishing": arrays(datasets.Phishing()),
    }
    for name, (X, y) in streams.items():

        def right(C: float, lam: float, X=X, y=y) -> str:
            return f"{1 - onkel.KernelClassifier(C=C, lam=lam).partial_fit(X, y).trace_.mistake.mean():.4f}"

        table(f"KernelClassifier, {name}", [(f"C {C:g}", C) for C in (0.3, 0.5, 1.0)], right)


def reals() -> None:
    from river import datasets

    streams = {"trump approval": arrays(datasets.TrumpApproval()), "friedman": make_friedman1(3000, noise=1.0, random_state=0)}
    for name, (X, y) in streams.items():
        X = (X - X.mean(axis=0)) / X.std(axis=0)

        def error(option, lam: float, X=X, y=y) -> str:
            C, offset = option
            scores = onkel.KernelRegressor(C=C, lam=lam, offset=offset).partial_fit(X, y).trace_.scores
            return f"{np.abs(y - scores)[len(y) // 10 :].mean():.4f}"

        options = [(f"C {C:g}{', offset' if offset else ''}", (C, offset)) for offset in (False, True) for C in (0.3, 1.0, 3.0)]
        table(f"KernelRegressor, {name}", options, error)


def novelty() -> None:
    digits, rng = load_digits(), np.random.default_rng(0)
    centers = 3.0 * rng.normal(size=(5, 3))
    blobs = centers[rng.integers(0, 5, 3500)] + 0.5 * rng.normal(size=(3500, 3))
    known = rng.permutation(digits.data[digits.target != 3])
    streams = {
        "blobs": (blobs[:3000], blobs[3000:], rng.uniform(-7, 7, (500, 3))),
        "digits without 3": (known[:1200], known[1200:], digits.data[digits.target == 3]),
    }
    for name, (X, normal, strange) in streams.items():

        def auc(C: float, lam: float, X=X, normal=normal, strange=strange) -> str:
            model = onkel.NoveltyDetector(C=C, lam=lam).partial_fit(X)
            scores = -model.score_samples(np.concatenate([normal, strange]))
            area = roc_auc_score(np.repeat([0, 1], [len(normal), len(strange)]), scores)
            return f"{area:.3f} {(model.predict(normal) < 0).mean():.3f}"

        table(f"NoveltyDetector, {name}", [(f"C {C:g}", C) for C in (0.1, 1.0)], auc)
