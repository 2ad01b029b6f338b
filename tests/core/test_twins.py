"""Every recipe, and every other combination that a learner can be, equals its naive twin: scores, losses, steps, insertions and
evictions, whichever way kernel values are obtained and however the stream is cut."""

from __future__ import annotations

import numpy as np
import pytest

import onkel
from onkel import (
    RBF,
    Adaptive,
    Budget,
    EpsilonInsensitive,
    Explicit,
    Hinge,
    Huber,
    Implicit,
    InvSqrt,
    Labels,
    Laplacian,
    Learner,
    Linear,
    Logistic,
    Matern,
    Novelty,
    Polynomial,
    Softmax,
    SqrtDecay,
    Square,
    Structured,
)  # fmt: skip
from onkel.core import drive as engine
from tests.core import naive

N, D = 130, 3
TREE = [-1, 0, 0, 1, 1, 2, 2]
PARTIAL = (1.0 - np.eye(3)) * [[0, 1, 2], [1, 0, 0.5], [2, 0.5, 0]], [[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.5]]

LOSSES = {
    "hinge": (Hinge(), {}),
    "novelty": (Novelty(), {}),
    "square": (Square(), {}),
    "logistic": (Logistic(), {}),
    "eps": (EpsilonInsensitive(0.2), {"theta": 0.2}),
    "huber": (Huber(0.7), {"theta": 0.7}),
    "structured": (Structured(Labels.flat(3)), {"labels": naive.flat(3)}),
    "structured-tree": (Structured(Labels.tree(TREE), 0.8), {"labels": naive.tree(TREE), "theta": 0.8}),
    "structured-any": (Structured(Labels(*PARTIAL)), {"labels": tuple(map(np.array, PARTIAL))}),
    "softmax": (Softmax(Labels.flat(3)), {"labels": naive.flat(3)}),
    "softmax-tree": (Softmax(Labels.tree(TREE)), {"labels": naive.tree(TREE)}),
}
MARGINS = ("hinge", "novelty", "eps", "huber", "structured", "structured-tree")


def stream(loss: str, n: int = N, d: int = D, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = {
        "hinge": np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0),
        "logistic": np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, 1.0, -1.0),
        "novelty": None,
        "structured": rng.integers(0, 3, n),
        "softmax": rng.integers(0, 3, n),
        "structured-any": rng.integers(0, 3, n),
        "structured-tree": rng.integers(0, 4, n),
        "softmax-tree": rng.integers(0, 4, n),
    }.get(loss, np.sin(X[:, 0]) + 0.3 * X[:, 1])
    return X, y


def twin(loss: str, kernel=None, **settings) -> naive.Naive:
    return naive.Naive(kernel or naive.rbf(1.0), loss=loss.split("-")[0], **{**LOSSES[loss][1], **settings})


def compare(learner: Learner, reference: naive.Naive, X, y, tolerance=1e-10, adaptive=False):
    expected = reference.run(X, y)
    state, trace = learner.learn(learner.init(), X, y)
    for name in ("scores", "loss", "mistake", "eta", "theta", "size"):
        ours, theirs = np.asarray(getattr(trace, name), float), np.asarray(expected[name], float)
        if name == "theta" and np.isnan(ours).all():
            continue
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=name)
    np.testing.assert_allclose(state.points, np.array(reference.points), atol=0, err_msg="points")
    np.testing.assert_allclose(state.coef, reference.coef, rtol=tolerance, atol=tolerance, err_msg="coef")
    np.testing.assert_allclose(state.offset, np.squeeze(reference.b), rtol=tolerance, atol=tolerance, err_msg="offset")
    if adaptive:
        np.testing.assert_allclose(state.trace_coef, reference.beta_coef, rtol=tolerance, atol=tolerance, err_msg="beta")
    held_out = X[:7] + 0.1
    np.testing.assert_allclose(
        learner.score(state, held_out), [reference.score(x) for x in held_out], rtol=tolerance, atol=tolerance
    )
    return state, trace


@pytest.fixture(params=["direct", "rows"])
def path(request, monkeypatch):
    """Kernel values computed in the loop, or taken from matrices."""
    if request.param == "rows":
        monkeypatch.setattr(engine, "DIRECT_SIZE", 0)
    return request.param


STEPS = {
    "explicit": (Explicit(0.3, 0.05, 1.3), dict(step="explicit", eta=0.3, lam=0.05, C=1.3)),
    "implicit": (Implicit(0.8, 0.05, 1.3), dict(step="implicit", eta=0.8, lam=0.05, C=1.3)),
    "adaptive": (Adaptive(0.3, 0.05, mu=0.2, decay=0.9), dict(step="adaptive", eta=0.3, lam=0.05, mu=0.2, decay=0.9)),
    "adaptive-implicit": (
        Adaptive(0.3, 0.05, mu=0.2, decay=0.9, implicit=True),
        dict(step="adaptive_implicit", eta=0.3, lam=0.05, mu=0.2, decay=0.9),
    ),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_with_every_step(loss, step, path):
    ours, theirs = STEPS[step]
    X, y = stream(loss, 60 if "adaptive" in step or "softmax" in loss else N)
    compare(Learner(RBF(1.0), LOSSES[loss][0], ours), twin(loss, **theirs), X, y, adaptive="adaptive" in step)


@pytest.mark.parametrize("drop", ["oldest", "smallest", "merge", "project"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("loss", ["hinge", "square", "structured", "structured-tree"])
def test_every_budget_with_every_step(loss, step, drop, path):
    ours, theirs = STEPS[step]
    X, y = stream(loss, 70 if "adaptive" in step else N)
    # a projection solves a Gram matrix; its condition number comes between the two solutions
    tolerance = 1e-7 if drop == "project" else 1e-10
    learner = Learner(RBF(1.0), LOSSES[loss][0], ours, Budget(12, drop))
    compare(learner, twin(loss, budget=12, drop=drop, **theirs), X, y, tolerance, adaptive="adaptive" in step)


@pytest.mark.parametrize("step", ["explicit", "implicit", "adaptive"])
@pytest.mark.parametrize("window", [1, 9])
def test_window_of_time(step, window, path):
    ours, theirs = STEPS[step]
    X, y = stream("hinge", 60)
    compare(Learner(RBF(1.0), Hinge(), ours, Budget(window=window)), twin("hinge", window=window, **theirs), X, y)


def test_growing_window(path):
    X, y = stream("hinge", 120)
    grows = lambda t: naive.growing_size(t, 0.2, 40)  # noqa: E731
    learner = onkel.norma(RBF(1.0), Hinge(), eta=InvSqrt(0.5), lam=0.1, window=grows)
    compare(learner, twin("hinge", step="explicit", eta=naive.inv_sqrt(0.5), lam=0.1, growing=(0.2, 40)), X, y)


@pytest.mark.parametrize("step", ["explicit", "adaptive"])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("loss", MARGINS)
def test_nu_trick(loss, offset, step, path):
    X, y = stream(loss, 80)
    ours, theirs = STEPS[step]
    start = {"epsilon0": 0.4} if step == "adaptive" else {}
    if step == "adaptive":
        ours = ours._replace(epsilon=0.4)
    learner = Learner(RBF(1.0), LOSSES[loss][0], ours, Budget(20), nu=0.3, offset=offset)
    compare(learner, twin(loss, nu=0.3, offset=offset, budget=20, drop="oldest", **start, **theirs), X, y)


@pytest.mark.parametrize("step", ["explicit", "implicit", "adaptive"])
@pytest.mark.parametrize("loss", LOSSES)
def test_offset(loss, step, path):
    ours, theirs = STEPS[step]
    X, y = stream(loss, 60)
    compare(Learner(RBF(1.0), LOSSES[loss][0], ours, offset=True), twin(loss, offset=True, **theirs), X, y)


@pytest.mark.parametrize("step", ["implicit", "adaptive-implicit"])
@pytest.mark.parametrize("loss", ["structured", "structured-tree", "structured-any"])
def test_exact_structured_prox(loss, step):
    ours, theirs = STEPS[step]
    X, y = stream(loss, 60)
    compare(Learner(RBF(1.0), LOSSES[loss][0], ours._replace(exact=True)), twin(loss, exact=True, **theirs), X, y)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Linear(), naive.linear()),
        (Polynomial(4, 0.5, 0.7), naive.polynomial(4, 0.5, 0.7)),
        (Laplacian(1.5), naive.laplacian(1.5)),
        (Matern(1.2, 0.5), naive.matern(1.2, 0.5)),
        (Matern(1.2, 1.5), naive.matern(1.2, 1.5)),
        (Matern(1.2, 2.5), naive.matern(1.2, 2.5)),
        (RBF(0.8) + Linear(), lambda x, z: naive.rbf(0.8)(x, z) + naive.linear()(x, z)),
        (RBF(2.0) * Polynomial(2), lambda x, z: naive.rbf(2.0)(x, z) * naive.polynomial(2)(x, z)),
    ],
)
def test_every_kernel(ours, theirs, path):
    X, y = stream("hinge", 80)
    step, settings = STEPS["implicit"]
    learner = Learner(ours, Hinge(), step, Budget(15, "merge"))
    compare(learner, twin("hinge", theirs, budget=15, drop="merge", **settings), X, y)


@pytest.mark.parametrize("eta", [(InvSqrt(0.7), naive.inv_sqrt(0.7)), (SqrtDecay(0.7, 20.0), naive.sqrt_decay(0.7, 20.0)),
                                 (lambda t: 0.5 + 0.3 * (t % 3), lambda t: 0.5 + 0.3 * (t % 3))])  # fmt: skip
def test_schedules(eta):
    X, y = stream("hinge", 60)
    for step, name in ((Explicit(eta[0], 0.05), "explicit"), (Implicit(eta[0], 0.05), "implicit")):
        compare(Learner(RBF(1.0), Hinge(), step), twin("hinge", step=name, eta=eta[1], lam=0.05), X, y)


POLY = Polynomial(2)
HINGE = dict(loss="hinge")
ONE = dict(loss="hinge", step="implicit", eta=1.0, lam=0.01, budget=1)
ZERO = dict(loss="hinge", step="explicit", eta=1.0, lam=0.0, theta=0.0)
MD = dict(loss="hinge", step="adaptive")
RECIPES = [
    (onkel.perceptron(RBF(1.0)), ZERO),
    (onkel.perceptron(RBF(1.0), budget=8), ZERO | dict(budget=8)),
    (onkel.pa(RBF(1.0), C=0.7, budget=8), HINGE | dict(step="implicit", eta=1.0, lam=0.0, C=0.7, budget=8)),
    (onkel.alma(RBF(1.0)), HINGE | dict(step="alma", alpha=0.9)),
    (onkel.alma(POLY, alpha=1.0, B=1.2, C=0.9), HINGE | dict(kernel=POLY, step="alma", alpha=1.0, B=1.2, alma_C=0.9)),
    (onkel.alma(POLY, alpha=0.6), HINGE | dict(kernel=POLY, step="alma", alpha=0.6)),
    (
        onkel.svmd(RBF(1.0), Hinge(), eta=0.3, mu=0.5, eta_min=0.1, eta_max=0.5),
        MD | dict(eta=0.3, lam=0.01, mu=0.5, decay=0.95, eta_min=0.1, eta_max=0.5),
    ),
    (
        onkel.svmd(RBF(1.0), Hinge(), eta=1.0, lam=1.0, mu=0.1, decay=0.0, nu=0.2),
        MD | dict(eta=1.0, lam=1.0, mu=0.1, decay=0.0, nu=0.2, epsilon0=1.0),
    ),
    (onkel.silk(RBF(1.0), Hinge(), budget=1), ONE | dict(drop="smallest")),
    (onkel.silk(RBF(1.0), Hinge(), budget=1, drop="merge"), ONE | dict(drop="merge")),
]


@pytest.mark.parametrize("case", range(len(RECIPES)))
def test_recipes(case, path):
    learner, settings = RECIPES[case]
    settings = dict(settings)
    kernel = naive.polynomial(2) if settings.pop("kernel", None) else naive.rbf(1.0)
    reference = naive.Naive(kernel, **settings)
    compare(learner, reference, *stream("hinge", 90))
