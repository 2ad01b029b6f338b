"""Models of every kind, and what is done with them, for the tests of files."""

import itertools

import numpy as np

import onkel
from onkel import persist
from onkel.commands.scorecard import Run
from onkel.theory import Growing

RBF, Hinge = onkel.RBF(1.0), onkel.Hinge()


def data(n, d=3, seed=0, dtype=np.float64):
    X = np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)
    return X, np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)


def slow_schedule(t):
    return 0.5 / t**0.25


def spectrum(X, Z):
    """Common pairs of letters."""
    pairs = [[{a + b for a, b in itertools.pairwise(word)} for word in words] for words in (X, Z)]
    return np.array([[len(x & z) for z in pairs[1]] for x in pairs[0]], float)


LEARNERS = {
    "silk": onkel.silk(RBF, Hinge, budget=16),
    "merge": onkel.silk(RBF, Hinge, budget=16, drop="merge"),
    "project": onkel.silk(RBF, Hinge, budget=16, drop="project"),
    "ilk": onkel.ilk(RBF, Hinge),
    "norma": onkel.norma(RBF, Hinge, budget=16, nu=0.3, offset=True),
    "window": onkel.norma(RBF, Hinge, window=20),
    "growing": onkel.norma(RBF, Hinge, window=Growing(0.25, 10)),
    "schedule": onkel.silk(RBF, Hinge, eta=slow_schedule, budget=16),
    "svmd": onkel.svmd(RBF, Hinge, budget=16, nu=0.3, offset=True),
    "perceptron": onkel.perceptron(RBF, budget=16),
    "alma": onkel.alma(RBF),
}


def same(first, second):
    """Every bit that counts: a file holds exactly that."""
    return persist.dumps(first) == persist.dumps(second)


def fitted(estimator, n, **options):
    X, y = data(n, **options)
    if type(estimator).__name__ == "NoveltyDetector":
        return estimator.partial_fit(X), (X,)
    return estimator.partial_fit(X, y if type(estimator).__name__ == "KernelRegressor" else np.where(y > 0, "yes", "no")), (X, y)


ESTIMATORS = {
    "classifier": lambda: onkel.KernelClassifier(budget=16),
    "regressor": lambda: onkel.KernelRegressor(budget=16),
    "novelty": lambda: onkel.NoveltyDetector(budget=16),
    "adaptive": lambda: onkel.KernelClassifier(budget=16, step="adaptive", drop="oldest", gamma=0.5),
}


def scores(model, X):
    if isinstance(model, tuple):
        return model[0].score(model[1], X)
    model = getattr(model, "model", model)
    return model.predict(X) if type(model).__name__ == "KernelRegressor" else model.decision_function(X)


def learned(model, X, y):
    if isinstance(model, tuple):
        return model[0], model[0].learn(model[1], X, y)[0]
    if isinstance(model, Run):
        model.learn(X, y)
        return model
    return model.partial_fit(X) if type(model).__name__ == "NoveltyDetector" else model.partial_fit(X, y)
