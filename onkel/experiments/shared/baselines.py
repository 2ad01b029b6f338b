"""What the kernel learners are held against: repeating the last label, random features, and with --peers other libraries.

Each function takes a stream and returns (mistakes or scores per example, bytes of the model). Examples are shown one at a
time, predicted first and learned second.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np


def no_change(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int]:
    """Predict the label before."""
    return np.r_[True, y[1:] != y[:-1]], y.itemsize


class RandomFeatures:
    """Fourier features z(x) = sqrt(2/D) cos(W x + b) of a Gaussian kernel, and NORMA's hinge step on the linear weights.

    The same step and forgetting as the kernel learners, so it is tuned on the same grid; no budget, since its size is D.
    """

    def __init__(self, classes: int, *, sigma: float, eta: float, forget: float, features: int = 512, seed: int = 0) -> None:
        self.classes, self.sigma, self.eta, self.forget = classes, sigma, eta, forget
        self.features, self.seed = features, seed

    def lift(self, X: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        self.directions = rng.normal(0, 1 / self.sigma, (X.shape[1], self.features)).astype(np.float32)
        self.phases = rng.uniform(0, 2 * np.pi, self.features).astype(np.float32)
        return np.sqrt(2 / self.features) * np.cos(X.astype(np.float32) @ self.directions + self.phases)

    def mistakes(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int]:
        Z = self.lift(X)
        weights = np.zeros((self.classes, self.features), dtype=np.float32)
        wrong = np.empty(len(y), dtype=bool)
        scale = 1.0  # forgetting is one lazy factor
        for t, (z, label) in enumerate(zip(Z, y)):
            scores = scale * (weights @ z)
            own = scores[label]
            scores[label] = -np.inf
            rival = int(scores.argmax())
            wrong[t] = own <= scores[rival]
            scale *= 1 - self.forget
            if 1 + scores[rival] - own > 0:
                step = np.float32(self.eta / scale) * z
                weights[label] += step
                weights[rival] -= step
            if scale < 1e-6:
                weights *= scale
                scale = 1.0
        return wrong, weights.nbytes + self.directions.nbytes + self.phases.nbytes

    def density(self, X: np.ndarray) -> tuple[np.ndarray, int]:
        """Novelty without labels: the score is the exponentially forgetting mean of the kernel to the past."""
        Z = self.lift(X)
        mean = np.zeros(self.features, dtype=np.float32)
        scores = np.empty(len(X))
        for t, z in enumerate(Z):
            scores[t] = mean @ z
            mean += np.float32(max(self.forget, 1 / (t + 1))) * (z - mean)
        return scores, mean.nbytes + self.directions.nbytes + self.phases.nbytes


# --- other libraries ----------------------------------------------------------------------------------------


def classifiers() -> dict[str, Callable[[], Any]]:
    """Fresh models by name, at their defaults; those of River learn dicts, those of scikit-learn rows."""
    from river import forest, linear_model, neighbors, tree
    from sklearn.linear_model import SGDClassifier

    return {
        "River logistic": linear_model.SoftmaxRegression,
        "River Hoeffding tree": tree.HoeffdingTreeClassifier,
        "River k nearest": lambda: neighbors.KNNClassifier(engine=neighbors.LazySearch(window_size=512)),
        "River adaptive forest": lambda: forest.ARFClassifier(n_models=10, seed=0),
        "scikit-learn SGD": lambda: SGDClassifier(loss="hinge", random_state=0),
    }


def detectors() -> dict[str, Callable[[], Any]]:
    from river import anomaly
    from sklearn.linear_model import SGDOneClassSVM

    return {
        "River half-space trees": lambda: anomaly.HalfSpaceTrees(n_trees=25, height=8, window_size=250, seed=0),
        "River one-class SVM": lambda: anomaly.OneClassSVM(nu=0.05),
        "scikit-learn one-class SGD": lambda: SGDOneClassSVM(nu=0.05, random_state=0),
    }


def peer_mistakes(name: str, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int]:
    model = classifiers()[name]()
    wrong = np.empty(len(y), dtype=bool)
    if name.startswith("River"):
        for t, (x, label) in enumerate(zip(rows(X), y.tolist())):
            wrong[t] = model.predict_one(x) != label
            model.learn_one(x, label)
    else:
        classes = np.unique(y)
        wrong[0] = True
        model.partial_fit(X[:1], y[:1], classes=classes)
        for t in range(1, len(y)):
            wrong[t] = model.predict(X[t : t + 1])[0] != y[t]
            model.partial_fit(X[t : t + 1], y[t : t + 1])
    return wrong, len(pickle.dumps(model))


def peer_scores(name: str, X: np.ndarray) -> tuple[np.ndarray, int]:
    """Higher is more normal."""
    model = detectors()[name]()
    scores = np.zeros(len(X))
    if name.startswith("River"):
        low, high = X.min(axis=0), X.max(axis=0)
        scaled = (X - low) / np.maximum(high - low, 1e-12)  # half-space trees ask for values in [0, 1]
        for t, x in enumerate(rows(scaled)):
            scores[t] = -model.score_one(x)
            model.learn_one(x)
    else:
        model.partial_fit(X[:1])
        for t in range(1, len(X)):
            scores[t] = model.score_samples(X[t : t + 1])[0]
            model.partial_fit(X[t : t + 1])
    return scores, len(pickle.dumps(model))


def rows(X: np.ndarray) -> list[dict[int, float]]:
    return [dict(enumerate(row)) for row in X.tolist()]
