"""Writes the kept files of the present format, into this folder.  Files that are there are never written again.

python tests/files/make.py
"""

import base64
import json
from pathlib import Path

import numpy as np

import onkel
from onkel.commands.scorecard import start
from onkel.persist import FORMAT, dumps
from tests.files.models import learned, scores

X = np.random.default_rng(0).normal(size=(140, 2)).round(3)
signs = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0).tolist()
codes = (X[:, 0] > 0.5).astype(int) + (X[:, 1] > 0.5)
RBF, Hinge = onkel.RBF(0.7), onkel.Hinge()


def learner(made):
    return made, made.init()


MODELS = {
    "silk": (learner(onkel.silk(RBF, Hinge, budget=5)), signs),
    "merge": (learner(onkel.silk(RBF, Hinge, budget=5, drop="merge")), signs),
    "project": (learner(onkel.silk(RBF, Hinge, budget=5, drop="project")), signs),
    "norma": (learner(onkel.norma(RBF, Hinge, budget=5, nu=0.3, offset=True)), signs),
    "svmd": (learner(onkel.svmd(RBF, Hinge, budget=5, offset=True)), signs),
    "tree": (learner(onkel.silk(RBF, onkel.Structured(onkel.Labels.tree([-1, 0, 0, 1, 1])), budget=5)), codes.tolist()),
    "classifier": (onkel.KernelClassifier(budget=5), np.array(["none", "some", "both"])[codes].tolist()),
    "regressor": (onkel.KernelRegressor(budget=5), np.sin(X[:, 0]).tolist()),
    "novelty": (onkel.NoveltyDetector(budget=5), [None] * len(X)),
    "run": (start("classes", ["a", "b"], "y", budget=5), np.array(["none", "some", "both"])[codes].tolist()),
}

if __name__ == "__main__":
    for name, (model, y) in MODELS.items():
        path = Path(__file__).parent / f"format{FORMAT}-{name}.json"
        if path.exists():
            continue
        model = learned(model, X[:120], y[:120])
        kept = {"file": base64.b64encode(dumps(model)).decode(), "X": X[:5].tolist(), "scores": scores(model, X[:5]).tolist()}
        kept["more"] = {"X": X[120:].tolist(), "y": y[120:]}
        kept["scores_after"] = scores(learned(model, X[120:], y[120:]), X[:5]).tolist()
        path.write_text(json.dumps(kept) + "\n")
