"""Every bad input is refused at the door: the error names the argument, what was given and what is allowed, and the state stays as
it was, to the byte."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import onkel
from onkel import (
    RBF,
    Adaptive,
    Alma,
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
    Matern,
    Novelty,
    Polynomial,
    Softmax,
    SqrtDecay,
    Square,
    Structured,
)  # fmt: skip
from tests.core.support import as_bytes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
SIGNS = np.where(X[:, 0] > 0, 1.0, -1.0)
CODES = RNG.integers(0, 3, 40)
NAN, INF = float("nan"), float("inf")


def with_nan(where=(2, 1), value=NAN):
    bad = X.copy()
    bad[where] = value
    return bad


# --- constructors ----------------------------------------------------------------------------------------------------------------

CONSTRUCTIONS = {
    # what is made: words that the message must hold
    "RBF sigma 0": (lambda: RBF(0.0), "sigma", "above 0", "0.0"),
    "RBF sigma negative": (lambda: RBF(-1), "sigma", "above 0", "-1"),
    "RBF sigma nan": (lambda: RBF(NAN), "sigma", "finite", "nan"),
    "RBF sigma word": (lambda: RBF("wide"), "sigma", "number", "'wide'"),
    "Laplacian sigma": (lambda: Laplacian(0), "sigma", "above 0", "0"),
    "Matern sigma": (lambda: Matern(INF), "sigma", "finite", "inf"),
    "Matern nu": (lambda: Matern(1.0, 2.0), "nu", "0.5, 1.5 or 2.5", "2.0"),
    "Polynomial degree 0": (lambda: Polynomial(0), "degree", "0"),
    "Polynomial degree half": (lambda: Polynomial(2.5), "degree", "whole", "2.5"),
    "Polynomial degree true": (lambda: Polynomial(True), "degree", "whole", "True"),
    "Polynomial gamma": (lambda: Polynomial(gamma=0.0), "gamma", "above 0", "0.0"),
    "Polynomial coef0": (lambda: Polynomial(coef0=-1.0), "coef0", "at least 0", "-1.0"),
    "sum with a word": (lambda: RBF() + "linear", "kernel", "callable", "'linear'"),
    "onkel.kernel": (lambda: onkel.kernel(3), "onkel.kernel", "function", "3"),
    "onkel.loss": (lambda: onkel.loss(3, lambda z, y: z), "value", "function", "3"),
    "onkel.loss arguments": (lambda: onkel.loss(lambda z, y: z, lambda z: z), "derivative", "two arguments"),
    "Hinge rho": (lambda: Hinge(-1.0), "rho", "at least", "-1.0"),
    "Novelty rho": (lambda: Novelty(NAN), "rho", "finite", "nan"),
    "EpsilonInsensitive": (lambda: EpsilonInsensitive(-0.1), "epsilon", "at least", "-0.1"),
    "Huber": (lambda: Huber(0.0), "sigma", "above", "0.0"),
    "Structured labels": (lambda: Structured(3), "labels", "Labels", "3"),
    "Structured rho": (lambda: Structured(Labels.flat(3), "a"), "rho", "finite", "'a'"),
    "Softmax labels": (lambda: Softmax([0, 1]), "labels", "Labels", "[0, 1]"),
    "Labels flat 0": (lambda: Labels.flat(0), "m", "at least 1", "0"),
    "Labels flat word": (lambda: Labels.flat("three"), "m", "whole number", "'three'"),
    "Labels cost asymmetric": (lambda: Labels([[0, 1], [2, 0]]), "cost", "symmetric"),
    "Labels cost diagonal": (lambda: Labels([[1, 1], [1, 0]]), "cost", "diagonal"),
    "Labels cost negative": (lambda: Labels([[0, -1], [-1, 0]]), "cost", "negative"),
    "Labels cost nan": (lambda: Labels([[0, NAN], [NAN, 0]]), "cost", "finite"),
    "Labels cost shape": (lambda: Labels([[0, 1, 1], [1, 0, 1]]), "cost", "square", "(2, 3)"),
    "Labels cost words": (lambda: Labels([["a"]]), "cost", "number"),
    "Labels kernel asymmetric": (lambda: Labels(1 - np.eye(2), [[1, 0.5], [0.2, 1]]), "kernel", "symmetric"),
    "Labels kernel indefinite": (lambda: Labels(1 - np.eye(2), [[1, 2], [2, 1]]), "kernel", "semi-definite", "-1"),
    "Labels sizes": (lambda: Labels(1 - np.eye(2), np.eye(3)), "cost", "kernel", "2", "3"),
    "Labels tree range": (lambda: Labels.tree([-1, 7]), "parents", "0 .. 1", "7"),
    "Labels tree circle": (lambda: Labels.tree([1, 0, 0]), "circle"),
    "InvSqrt": (lambda: InvSqrt(0.0), "eta", "above 0", "0.0"),
    "SqrtDecay": (lambda: SqrtDecay(0.1, -2.0), "tau", "above 0", "-2.0"),
    "norma eta 0": (lambda: onkel.norma(RBF(), Hinge(), eta=0.0), "eta", "above 0", "0.0"),
    "norma eta word": (lambda: onkel.norma(RBF(), Hinge(), eta="fast"), "eta", "number", "'fast'"),
    "norma lam": (lambda: onkel.norma(RBF(), Hinge(), lam=-0.1), "lam", "at least 0", "-0.1"),
    "norma C": (lambda: onkel.norma(RBF(), Hinge(), C=-1.0), "C", "above 0", "-1.0"),
    "norma eta lam": (lambda: onkel.norma(RBF(), Hinge(), eta=2.0, lam=0.51), "eta * lam", "at most 1", "1.02"),
    "norma nu": (lambda: onkel.norma(RBF(), Hinge(), nu=1.5), "nu", "at most 1", "1.5"),
    "norma nu 0": (lambda: onkel.norma(RBF(), Hinge(), nu=0.0), "nu", "above 0", "0.0"),
    "norma nu square": (lambda: onkel.norma(RBF(), Square(), nu=0.5), "nu", "margin", "Square"),
    "norma budget 0": (lambda: onkel.norma(RBF(), Hinge(), budget=0), "budget", "at least 1", "0"),
    "norma budget half": (lambda: onkel.norma(RBF(), Hinge(), budget=2.5), "budget", "whole", "2.5"),
    "norma budget word": (lambda: onkel.norma(RBF(), Hinge(), budget="many"), "budget", "whole", "'many'"),
    "norma budget inf": (lambda: onkel.norma(RBF(), Hinge(), budget=INF), "budget", "whole", "inf"),
    "norma window 0": (lambda: onkel.norma(RBF(), Hinge(), window=0), "window", "at least 1", "0"),
    "norma window word": (lambda: onkel.norma(RBF(), Hinge(), window="wide"), "window", "whole", "'wide'"),
    "norma both": (lambda: onkel.norma(RBF(), Hinge(), window=3, budget=4), "window=3", "budget=4", "not both"),
    "norma kernel": (lambda: onkel.norma("rbf", Hinge()), "kernel", "RBF", "'rbf'"),
    "norma loss": (lambda: onkel.norma(RBF(), "hinge"), "loss", "Hinge()", "'hinge'"),
    "norma loss class": (lambda: onkel.norma(RBF(), Hinge), "loss", "Hinge()", "class"),
    "norma kernel class": (lambda: onkel.norma(RBF, Hinge()), "kernel", "RBF", "class"),
    "ilk rho 0": (lambda: onkel.ilk(RBF(), Hinge(0.0)), "rho", "above 0"),
    "ilk structured rho 0": (lambda: onkel.ilk(RBF(), Structured(Labels.flat(3), 0.0)), "rho", "above 0"),
    "ilk novelty rho 0": (lambda: onkel.ilk(RBF(), Novelty(0.0)), "rho", "above 0"),
    "ilk lam": (lambda: onkel.ilk(RBF(), Hinge(), lam=-1), "lam", "at least 0", "-1"),
    "ilk C": (lambda: onkel.ilk(RBF(), Hinge(), C=0.0), "C", "above 0", "0.0"),
    "silk drop": (lambda: onkel.silk(RBF(), Hinge(), drop="newest"), "drop", "'oldest'", "'newest'"),
    "silk budget None": (lambda: onkel.silk(RBF(), Hinge(), budget=None), "budget", "smallest"),
    "silk budget true": (lambda: onkel.silk(RBF(), Hinge(), budget=True), "budget", "whole", "True"),
    "svmd schedule": (lambda: onkel.svmd(RBF(), Hinge(), eta=InvSqrt(1.0)), "eta", "number"),
    "svmd mu": (lambda: onkel.svmd(RBF(), Hinge(), mu=-0.1), "mu", "at least 0", "-0.1"),
    "svmd decay": (lambda: onkel.svmd(RBF(), Hinge(), decay=1.1), "decay", "at most 1", "1.1"),
    "svmd epsilon": (lambda: onkel.svmd(RBF(), Hinge(), epsilon=0.0), "epsilon", "above 0", "0.0"),
    "svmd limits": (lambda: onkel.svmd(RBF(), Hinge(), eta_min=1.0, eta_max=0.5), "eta_min", "eta_max", "1.0", "0.5"),
    "svmd eta lam": (lambda: onkel.svmd(RBF(), Hinge(), eta=2.0, lam=1.0), "eta * lam", "at most 1", "2"),
    "alma alpha": (lambda: onkel.alma(RBF(), alpha=0.0), "alpha", "above 0", "0.0"),
    "alma alpha 2": (lambda: onkel.alma(RBF(), alpha=2.0), "alpha", "at most 1", "2.0"),
    "alma B": (lambda: onkel.alma(RBF(), B=-1.0), "B", "above 0", "-1.0"),
    "pa C": (lambda: onkel.pa(RBF(), C=0.0), "C", "above 0", "0.0"),
    "perceptron budget": (lambda: onkel.perceptron(RBF(), budget=-3), "budget", "at least 1", "-3"),
    "implicit nu": (lambda: Learner(RBF(), Hinge(), Implicit(), nu=0.5), "nu", "implicit"),
    "alma loss": (lambda: Learner(RBF(), Square(), Alma()), "Alma", "Hinge()"),
    "adaptive implicit offset": (lambda: Learner(RBF(), Hinge(), Adaptive(implicit=True), offset=True), "offset", "implicit"),
    "step word": (lambda: Learner(RBF(), Hinge(), "explicit"), "step", "Explicit", "'explicit'"),
    "budget number": (lambda: Learner(RBF(), Hinge(), Explicit(), 12), "budget", "Budget", "12"),
}


@pytest.mark.parametrize("case", CONSTRUCTIONS)
def test_constructors_refuse(case):
    make, *words = CONSTRUCTIONS[case]
    with pytest.raises((ValueError, TypeError)) as caught:
        make()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_eta_lam_of_exactly_one_is_allowed():
    for learner in (onkel.norma(RBF(), Hinge(), eta=1.0, lam=1.0), onkel.svmd(RBF(), Hinge(), eta=2.0, lam=0.5)):
        state, _ = learner.learn(learner.init(), X, SIGNS)
        assert np.isfinite(state.coef).all()
    onkel.ilk(RBF(), Hinge(), eta=50.0, lam=50.0)  # the implicit step takes any


# --- learn and score -------------------------------------------------------------------------------------------------------------

HINGE = onkel.silk(RBF(), Hinge(), budget=8, drop="merge")
LABELS = onkel.silk(RBF(), Structured(Labels.flat(3)), budget=8)
REAL = onkel.norma(RBF(), Square(), budget=8)

BAD_X = {
    "nan": (with_nan(), "X", "row 2, column 1", "finite"),
    "infinity": (with_nan((0, 0), INF), "X", "NaN or infinity", "finite"),
    "minus infinity": (with_nan((0, 0), -INF), "X", "finite"),
    "too few features": (X[:, :2], "X", "2 features", "3"),
    "too many features": (np.hstack([X, X]), "X", "6 features", "3"),
    "no examples": (X[:0], "X", "empty", "(0, 3)"),
    "no features": (X[:, :0], "X", "empty", "(40, 0)"),
    "one dimension": (X[0], "X", "two dimensions", "(3,)"),
    "three dimensions": (X[None], "X", "two dimensions", "(1, 40, 3)"),
    "a number": (1.5, "X", "two dimensions"),
    "nothing": (None, "X", "numbers"),
    "an empty list": ([], "X"),
    "ragged": ([[1.0, 2.0, 3.0], [1.0]], "X", "numbers"),
    "words": (["a", "b"], "X", "numbers", "kernel"),
    "one word": ("word", "X", "'word'"),
    "complex": (X * 1j, "X", "numbers"),
    "sparse after dense": (sp.csr_matrix(X), "X", "sparse", "dense"),
}
BAD_Y = {
    "missing": (HINGE, None, "y", "missing", "Hinge"),
    "too short": (HINGE, SIGNS[:-1], "y", "(40,)", "(39,)"),
    "a column": (HINGE, SIGNS[:, None], "y", "(40,)", "(40, 1)"),
    "a number": (HINGE, 1.0, "y", "(40,)", "()"),
    "nan": (HINGE, np.where(np.arange(40) == 3, NAN, SIGNS), "y", "NaN", "finite"),
    "infinity": (REAL, np.where(np.arange(40) == 3, INF, SIGNS), "y", "infinity", "finite"),
    "words": (HINGE, ["a"] * 40, "y", "numbers", "'a'"),
    "zero and one": (HINGE, (SIGNS + 1) / 2, "y", "+1 and -1", "0"),
    "classes as signs": (HINGE, CODES, "y", "+1 and -1"),
    "code too high": (LABELS, CODES + 1, "y", "0 .. 2", "3"),
    "code negative": (LABELS, CODES - 1, "y", "0 .. 2", "-1"),
    "code half": (LABELS, CODES + 0.5, "y", "0 .. 2", ".5"),
    "code missing": (LABELS, None, "y", "missing", "Structured"),
    "ragged": (REAL, [[1.0], [1.0, 2.0]] * 20, "y", "numbers"),
}
BAD_WEIGHT = {
    "negative": (-np.ones(40), "negative"),
    "nan": (np.full(40, NAN), "finite"),
    "too few": (np.ones(3), "40 finite numbers"),
    "words": (["heavy"] * 40, "numbers"),
}


def refuses(call, state, words):
    before = as_bytes(state)
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert as_bytes(state) == before
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.fixture(scope="module")
def learned():
    targets = {HINGE: SIGNS, LABELS: CODES, REAL: SIGNS}
    return {learner: learner.learn(learner.init(), X, y)[0] for learner, y in targets.items()}


@pytest.mark.parametrize("case", BAD_X)
def test_learn_and_score_refuse_bad_x(case, learned):
    bad, *words = BAD_X[case]
    state = learned[HINGE]
    n = bad.shape[0] if hasattr(bad, "shape") else len(bad) if isinstance(bad, list | str) else 1
    refuses(lambda: HINGE.learn(state, bad, np.ones(n)), state, words)
    refuses(lambda: HINGE.score(state, bad), state, words)
    if case not in ("too few features", "too many features", "sparse after dense"):  # the first block meets the same door
        fresh = HINGE.init()
        refuses(lambda: HINGE.learn(fresh, bad, np.ones(n)), fresh, words)


@pytest.mark.parametrize("case", BAD_Y)
def test_learn_refuses_bad_y(case, learned):
    learner, bad, *words = BAD_Y[case]
    refuses(lambda: learner.learn(learned[learner], X, bad), learned[learner], words)


@pytest.mark.parametrize("case", BAD_WEIGHT)
def test_learn_refuses_bad_weights(case, learned):
    bad, *words = BAD_WEIGHT[case]
    refuses(lambda: HINGE.learn(learned[HINGE], X, SIGNS, bad), learned[HINGE], ["sample_weight", *words])


def test_a_model_in_single_precision_refuses_what_does_not_fit():
    state, _ = HINGE.learn(HINGE.init(), X.astype(np.float32), SIGNS)
    refuses(lambda: HINGE.learn(state, X * 1e300, SIGNS), state, ["X", "float32"])


def test_objects_and_numbers_do_not_mix():
    learner = onkel.silk(lambda A, B: np.array([[float(a == b) for b in B] for a in A]), Hinge(), budget=4)
    state, _ = learner.learn(learner.init(), ["a", "b", "a"], [1, -1, 1])
    refuses(lambda: learner.learn(state, X, SIGNS), state, ["X", "objects"])
    refuses(lambda: learner.score(state, X), state, ["X", "objects"])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda X, Z: np.ones((1, 1)), ["kernel", "(1, 1)", "it must return"]),
        (lambda X, Z: np.ones(len(X)), ["kernel", "(40,)", "it must return (40, 40)"]),
        (lambda X, Z: np.full((len(X), len(Z)), NAN), ["kernel", "NaN", "finite"]),
        (lambda X, Z: "similar", ["kernel", "must return", "'similar'"]),
        (lambda X, Z: None, ["kernel", "must return"]),
    ],
)
def test_kernel_callables_are_looked_at(answer, words):
    learner = onkel.silk(answer, Hinge(), budget=4)
    state = learner.init()
    refuses(lambda: learner.learn(state, X, SIGNS), state, words)


def test_a_kernel_callable_that_goes_wrong_later_leaves_the_state():
    asked = []

    def moody(X, Z):
        asked.append(1)
        return np.ones((len(X), len(Z) + (len(asked) > 200)))

    learner = onkel.silk(moody, Hinge(), budget=4)
    state, _ = learner.learn(learner.init(), X, SIGNS)
    asked.extend([1] * 200)
    refuses(lambda: learner.learn(state, X, SIGNS), state, ["kernel", "it must return"])
    refuses(lambda: learner.score(state, X), state, ["kernel", "it must return"])


def test_schedules_and_windows_are_looked_at_when_they_speak():
    for eta, words in ((lambda t: -1.0 if t > 3 else 1.0, ["eta", "t = 4", "positive"]), (lambda t: NAN, ["eta", "finite"]),
                       (lambda t: "fast", ["eta", "'fast'"])):  # fmt: skip
        learner = onkel.norma(RBF(), Hinge(), eta=eta, lam=0.1)
        state = learner.init()
        refuses(lambda learner=learner, state=state: learner.learn(state, X, SIGNS), state, words)
    learner = onkel.norma(RBF(), Hinge(), eta=lambda t: 0.5 * t, lam=0.1)  # eta lam passes 1 at t = 21
    state, _ = learner.learn(learner.init(), X[:20], SIGNS[:20])
    refuses(lambda: learner.learn(state, X[20:], SIGNS[20:]), state, ["eta * lam", "at most 1"])
    for window in (lambda t: "wide", lambda t: NAN):
        learner = onkel.norma(RBF(), Hinge(), window=window)
        state = learner.init()
        refuses(lambda learner=learner, state=state: learner.learn(state, X, SIGNS), state, ["window"])


@pytest.mark.parametrize(
    ("value", "derivative"),
    [
        (lambda z, y: np.cos(z), lambda z, y: -np.sin(z)),  # concave at 0
        pytest.param(lambda z, y: (z - y) ** 2, lambda z, y: -(z - y), marks=pytest.mark.slow),  # a derivative of something else
    ],
)
def test_a_loss_that_is_not_convex_is_noticed(value, derivative):
    learner = onkel.silk(RBF(), onkel.loss(value, derivative), budget=4)
    state = learner.init()
    refuses(lambda: learner.learn(state, X, SIGNS), state, ["onkel.loss", "convex", "example 0"])


@pytest.mark.parametrize(
    "learner",
    [onkel.norma(Polynomial(9), Hinge(), eta=1.0, lam=0.0), onkel.silk(Linear(), Hinge(), budget=4),
     onkel.norma(RBF(), Square(), eta=3.0, lam=0.0)],
    ids=["kernel overflows", "products overflow", "diverges"],
)  # fmt: skip
def test_a_model_that_leaves_the_finite_numbers_says_so(learner):
    state, _ = learner.learn(learner.init(), X[:1], SIGNS[:1])
    before = as_bytes(state)
    huge = np.repeat(X[:1], 4000, 0) * (1.0 if isinstance(learner.kernel, RBF) else 1e200)
    with pytest.raises(FloatingPointError, match=r"finite numbers at example \d+ of this call.*Scale the data"):
        learner.learn(state, huge, np.ones(4000))
    assert as_bytes(state) == before


def test_a_coefficient_that_does_not_fit_single_precision_is_noticed():
    learner = onkel.norma(RBF(), Square(), eta=1.0)
    with pytest.raises(FloatingPointError, match="finite"):
        learner.learn(learner.init(), X[:1].astype(np.float32), [1e100])


def test_a_budget_is_a_budget():
    assert type(Budget(np.int64(8)).size) is int
    with pytest.raises(ValueError, match=r"at least 1, or None; got 0"):
        Budget(0)
