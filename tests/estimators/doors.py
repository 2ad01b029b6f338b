"""All doors alike: learn, score, and a picture of everything inside."""

import warnings

import numpy as np

import onkel
from onkel import persist

RBF, Hinge = onkel.RBF(1.0), onkel.Hinge()

REFUSALS = (ValueError, TypeError, FloatingPointError)


def silk(**options):
    return onkel.silk(RBF, Hinge, **{"budget": 8, **options})


def data(n, d=3, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


# --- the doors, all alike: learn, score, and a picture of everything inside ------------------------------------------------------


class LearnerDoor:
    targets = "signs"

    def __init__(self):
        self.learner = silk()
        self.state = self.learner.init()

    def learn(self, X, y):
        self.state, _ = self.learner.learn(self.state, X, y)

    def score(self, X):
        return self.learner.score(self.state, X)

    def picture(self):
        return persist.dumps((self.learner, self.state))


class EstimatorDoor:
    def __init__(self, kind, **options):
        self.targets = {"KernelClassifier": "classes", "KernelRegressor": "reals", "NoveltyDetector": "none"}[kind]
        self.model = getattr(onkel, kind)(budget=8, gamma=0.5, **options)

    def learn(self, X, y):
        self.model.partial_fit(X) if self.targets == "none" else self.model.partial_fit(X, y)

    def score(self, X):
        return self.model.predict(X) if self.targets == "reals" else self.model.decision_function(X)

    def picture(self):
        return persist.dumps(self.model)


class RiverDoor(EstimatorDoor):
    def __init__(self, kind):
        from onkel import river

        super().__init__(kind)
        self.model = getattr(river, kind)(budget=8, gamma=0.5)

    def learn(self, X, y):
        X = np.asarray(X)
        for i, row in enumerate(X):
            x = {f"x{j}": value for j, value in enumerate(np.atleast_1d(row).tolist())}
            self.model.learn_one(x) if self.targets == "none" else self.model.learn_one(x, np.asarray(y)[i].item())

    def score(self, X):
        predict = {"classes": "predict_proba_one", "reals": "predict_one", "none": "score_one"}[self.targets]
        scores = [getattr(self.model, predict)({f"x{j}": v for j, v in enumerate(row)}) for row in np.asarray(X).tolist()]
        return np.array([list(score.values()) if isinstance(score, dict) else score for score in scores], float)


KINDS = ("KernelClassifier", "KernelRegressor", "NoveltyDetector")
DOORS = {
    "learner": LearnerDoor,
    **{kind: (lambda kind=kind: EstimatorDoor(kind)) for kind in KINDS},
    **{f"river {kind}": (lambda kind=kind: RiverDoor(kind)) for kind in KINDS},
}


def aims(door, n, seed=0):
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return np.where(signs > 0, "yes", "no") if door.targets == "classes" else signs


def attempt(door, X, y):
    """Learn; True if it went in and all is finite, False if it was refused and nothing has changed."""
    before = door.picture()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            door.learn(X, y)
        refused = ""
    except REFUSALS as error:
        refused = str(error)
    if refused:
        assert len(refused) > 10
        assert door.picture() == before, f"changed by what it refused: {refused}"
        return False
    persist.loads(door.picture())  # which checks that the state is sound and finite
    return True
