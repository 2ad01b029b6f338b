"""A kernel, a loss, a loss over labels and a budget rule that only this file knows go through every door of the library, as
docs/extending.md says; and what a definition leaves out is an error where it is defined."""

from __future__ import annotations

import json
import pickle

import numba
import numpy as np
import pytest

import onkel
from onkel import RBF, Adaptive, Budget, Explicit, Hinge, Implicit, Labels, Learner, cli, gpu, persist
from onkel.core.loop.layout import N
from onkel.core.machine import calls
from onkel.core.machine.compiled import lasting
from onkel.core.machine.lanes import like
from onkel.core.maths.budget import Rule
from onkel.core.maths.kernels import Formula
from onkel.core.maths.labelled import Structured, over_labels
from onkel.core.maths.losses import OneScore, Straight, Threshold, Unlimited, smooth_tangent
from onkel.core.maths.value import DEFINED, Value, number
from onkel.core.points.dense import Rows
from onkel.gpu import code


class Rational(Formula):
    """1 / (1 + d^2 / c)"""

    c: float = number(1.0, above=0)

    name = "rational"
    geometry = "square"
    own = 1.0
    cuda = "1 / (1 + q / p[0])"

    def transform(kernel, q):
        return like(q, 1.0) / (q * like(q, 1.0 / kernel.c) + like(q, 1.0))

    @classmethod
    def of_gamma(cls, gamma, degree, coef0):
        return cls(1.0 / gamma)


class Expectile(Unlimited):
    """1/2 w d^2 with d = y - f, and w = tau where d is positive, 1 - tau where it is not."""

    tau: float = number(0.8, above=0, high=1.0)

    name = "expectile"
    targets = "reals"
    stores_all = True
    cuda = None

    def value(loss, f, y, theta):
        return 0.5 * (loss.tau if y > f else 1.0 - loss.tau) * (y - f) * (y - f)

    def slope(loss, f, y, theta, tie):
        return (loss.tau if y > f else 1.0 - loss.tau) * (f - y)

    def curvature(loss, f, y, theta):
        return loss.tau if y > f else 1.0 - loss.tau

    def mistake(loss, f, y, theta):
        return False

    def prox(loss, z, y, theta, cap, k):
        w = loss.tau if y > z else 1.0 - loss.tau  # the step goes towards y, never past it
        return cap * w * (y - z) / (1.0 + cap * w * k)

    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        w = loss.tau if y > z else 1.0 - loss.tau
        return smooth_tangent(w * (z + k * a - y), w, cap, k, dz, dcap)


class Wide(Structured):
    """The multiclass hinge under a name of its own."""

    name = "wide"
    like = None


class Alike(Rule):
    """Of the stored points the one that is most like the new one goes."""

    name = "alike"
    kind = "OTHER"
    in_turn = adaptive = on_card = False
    matrices = 0

    def make_room(kappa, j, K, r, kxx, settings, num, slots, gram, m, base):
        best = 0
        for i in range(int(num[N])):
            if K[r, i] > K[r, best]:
                best = i
        return best


RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = X[:, 0] - 0.5 * X[:, 1] ** 2
LEARNER = Learner(Rational(2.0), Expectile(0.7), Implicit(0.5, 0.02), Budget(12, "alike"))


def rational(x, z, c=2.0):
    return 1.0 / (1.0 + float(((x - z) ** 2).sum()) / c)


def twin():
    """The same learner, written from the formulas alone."""
    points, coef, scores = [], [], []
    shrink = 1.0 / (1.0 + 0.5 * 0.02)
    cap = shrink * 0.5
    for x, y in zip(X, Y):
        row = [rational(x, z) for z in points]
        f = float(np.dot(row, coef)) if row else 0.0
        scores.append(f)
        z = shrink * f
        w = 0.7 if y > z else 1.0 - 0.7
        coef = [shrink * a for a in coef]
        if len(points) == 12:
            best = int(np.argmax(row))
            del points[best], coef[best]
        points.append(x)
        coef.append(cap * w * (y - z) / (1.0 + cap * w))
    return np.array(points), np.array(coef), np.array(scores)


@pytest.fixture(scope="module")
def learned():
    return LEARNER.learn(LEARNER.init(), X, Y)


def test_the_learner_is_its_twin(learned):
    state, trace = learned
    points, coef, scores = twin()
    np.testing.assert_array_equal(state.points, points)
    np.testing.assert_allclose(state.coef, coef, rtol=1e-9)
    np.testing.assert_allclose(trace.scores, scores, atol=1e-11)


def test_an_address_is_asked_for_the_types_that_are_passed_there(learned):
    assert calls.promised["make room"] <= calls.passed["make room"]


def test_adaptive_steps_refuse_a_rule_that_says_so():
    with pytest.raises(ValueError, match=r"drop='alike' does not go with adaptive steps"):
        Learner(RBF(1.0), Hinge(), Adaptive(), Budget(12, Alike()))


def test_any_cut_gives_the_same_and_matrices_too(learned, monkeypatch):
    state = LEARNER.init()
    for part in np.split(np.arange(len(X)), [1, 2, 40]):
        state, _ = LEARNER.learn(state, X[part], Y[part])
    np.testing.assert_array_equal(state.coef, learned[0].coef)
    monkeypatch.setattr("onkel.core.drive.DIRECT_SIZE", 0)
    other, _ = LEARNER.learn(LEARNER.init(), X, Y)
    assert other.store is not None
    np.testing.assert_array_equal(other.points, learned[0].points)
    np.testing.assert_allclose(other.coef, learned[0].coef, rtol=1e-9)


def test_saved_loaded_and_pickled(learned):
    state, _ = learned
    again, theirs = persist.loads(persist.dumps((LEARNER, state)))
    assert again == LEARNER == pickle.loads(pickle.dumps(LEARNER))
    np.testing.assert_array_equal(again.score(theirs, X), LEARNER.score(state, X))


def test_a_file_of_an_unknown_class_says_what_to_do(learned, monkeypatch):
    data = persist.dumps((LEARNER, learned[0]))
    monkeypatch.delitem(DEFINED, "Expectile")
    with pytest.raises(persist.BadFile, match=r"'Expectile'.*module imported"):
        persist.loads(data)


def test_many_learn_it_together(learned):
    others = [LEARNER, Learner(RBF(1.0), Expectile(0.7), Implicit(0.5, 0.02), Budget(12))]
    (state, _), _ = onkel.learn_many(others, X, Y)
    np.testing.assert_array_equal(state.coef, learned[0].coef)


DOOR = {"kernel": "rational", "gamma": 0.5, "loss": "expectile", "drop": "alike", "budget": 12, "lam": 0.02}


def test_estimators_and_river_take_them_by_name_or_value():
    named = onkel.KernelRegressor(**DOOR).fit(X, Y)
    assert named.predict(X[:5]).shape == (5,)
    given = onkel.KernelRegressor(**{**DOOR, "kernel": Rational(2.0), "loss": Expectile()}).fit(X, Y)
    np.testing.assert_array_equal(given.predict(X), named.predict(X))
    np.testing.assert_array_equal(persist.loads(persist.dumps(named)).predict(X), named.predict(X))
    from onkel import river

    model = river.KernelRegressor(**DOOR)
    for x, y in zip(X, Y):
        model.learn_one(dict(enumerate(x)), float(y))
    one = onkel.KernelRegressor(**DOOR)
    for x, y in zip(X, Y):
        one.learn_one(x, float(y))
    assert model.predict_one(dict(enumerate(X[0]))) == one.predict_one(X[0])


def test_the_command_line_takes_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [",".join(map(repr, [*map(float, x), float(y)])) for x, y in zip(X, Y)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,y", *rows]))
    names = ["--kernel", "rational", "--loss", "expectile", "--forget", "alike", "--budget", "12"]
    assert cli.main(["run", "t.csv", "--target", "y", "--task", "reals", "--no-figure", "--quiet", *names]) == 0
    assert json.loads((tmp_path / "t.json").read_text())
    assert cli.main(["info", "t.onkel"]) == 0
    assert "rational" in capsys.readouterr().out


def test_classifiers_take_a_loss_over_labels():
    labels = Labels.flat(2)
    assert over_labels("wide", labels) == over_labels(Wide, labels) == Wide(labels)
    assert over_labels(Hinge(0.5), labels) == Structured(labels, 0.5)
    y = (X[:, 0] > 0).astype(int)
    a, b = (onkel.KernelClassifier(loss=loss, budget=12).fit(X, y) for loss in ("wide", "hinge"))
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))
    np.testing.assert_array_equal(persist.loads(persist.dumps(a)).predict(X), a.predict(X))


def test_the_card_takes_their_formulas():
    text = code.source(Hinge, [Rational, onkel.Linear])
    assert "return 1 / (1 + q / p[0]);" in text
    gpu.check(Learner(Rational(2.0), Hinge(), Explicit(0.1, 0.01), Budget(8)), Rows(X))
    for learner, word in ((LEARNER, "Expectile"), (Learner(RBF(), Hinge(), Explicit(0.1, 0.01), Budget(8, "alike")), "alike")):
        with pytest.raises(ValueError, match=f"does not do .*{word}"):
            gpu.check(learner, Rows(X))


def test_machine_code_for_classes_of_others_stays_in_the_process():
    """No other process knows the class, and the stamp of the code on disk does not know its file."""
    foreign = Expectile(), Rational(), RBF() + Rational(), Wide(Labels.flat(2))
    assert not any(lasting(numba.typeof(value)) for value in foreign)
    assert all(lasting(numba.typeof(value)) for value in (Hinge(), RBF() + RBF(), Structured(Labels.flat(2))))
    assert not lasting((numba.float64, numba.typeof(Expectile())))


# --- what is missing is said where it is missing -------------------------------------------------------------------------------

KERNEL = {"geometry": "square", "own": 1.0, "cuda": None, "transform": lambda kernel, q: q}
LOSS = {
    "targets": "reals",
    "theta": Threshold(None),
    "stores_all": True,
    "cuda": None,
    **{name: lambda *given: 0.0 for name in OneScore.formulas},
}
RULE = {"name": "odd", "kind": "SMALLEST", "make_room": None, "in_turn": False, "adaptive": True, "matrices": 0, "on_card": False}


@pytest.mark.parametrize(("base", "says"), [(Formula, KERNEL), (OneScore, LOSS), (Rule, RULE)])
def test_a_definition_says_everything(base, says):
    for left_out in says:
        space = {"__module__": __name__, **{key: value for key, value in says.items() if key != left_out}}
        with pytest.raises(TypeError, match=f"Odd must say {left_out}"):
            type(base)("Odd", (base,), space)
    assert "Odd" not in DEFINED
    try:
        assert type(base)("Odd", (base,), {"__module__": __name__, **says})
    finally:
        DEFINED.pop("Odd", None)


@pytest.mark.parametrize(
    ("base", "says", "change", "words"),
    [
        (Formula, KERNEL, {"geometry": "round"}, "geometry must be one of 'product'.*got 'round'"),
        (Formula, KERNEL, {"name": "rbf"}, "of_gamma"),
        (OneScore, LOSS, {"targets": "colours"}, "targets must be one of .*got 'colours'"),
        (OneScore, LOSS, {"theta": 1.0}, "theta must be a Threshold"),
        (OneScore, LOSS, {"theta": Threshold("rho")}, "theta must be a Threshold of one of its fields"),
        (OneScore, LOSS, {"name": "huber"}, "Huber is the loss called 'huber'"),
        (Rule, RULE, {"name": "merge"}, "Merge is the rule called 'merge'"),
        (Rule, RULE, {"kind": "OTHER"}, "make_room"),
        (Rule, RULE, {"kind": "NEWEST"}, "kind must be"),
    ],
)
def test_a_definition_makes_sense(base, says, change, words):
    with pytest.raises(TypeError, match=words):
        type(base)("Odd", (base,), {"__module__": __name__, **says, **change})
    assert "Odd" not in DEFINED


def test_names_in_files_are_taken_once():
    with pytest.raises(TypeError, match=r"onkel.core.maths.losses has a value called Hinge"):
        type(Straight)("Hinge", (Straight,), {"__module__": __name__, **LOSS})
    assert DEFINED["Hinge"] is Hinge


def test_values_are_checked_when_they_are_made():
    class Sample(Value, abstract=True):
        a: float = number(above=0)
        b: float = number(2.0, low=0, high=3.0)

    one = Sample(1)
    assert repr(one) == "Sample(a=1.0, b=2.0)"
    assert one == Sample(a=1.0) != Sample(1.0, 3.0)
    assert one._replace(b=3) == Sample(1.0, 3.0)
    assert hash(one) == hash(Sample(1.0))
    assert (one.a, one[1], len(one)) == (1.0, 2.0, 2)
    for make, words in {
        (lambda: Sample()): "a is missing",
        (lambda: Sample(1, 2, 3)): "at most 2",
        (lambda: Sample(1, a=2)): "'a' twice",
        (lambda: Sample(1, c=2)): "no 'c'",
    }.items():
        with pytest.raises(TypeError, match=words):
            make()
    for make, words in {
        (lambda: Sample(0)): r"Sample: a must be a finite number above 0; got 0",
        (lambda: one._replace(b=4)): r"of at least 0 and at most 3; got 4",
        (lambda: Explicit(eta=-1)): "eta",
        (lambda: Explicit(eta=2.0, lam=1.0)): "eta",
        (lambda: Budget(0)): "budget",
    }.items():
        with pytest.raises(ValueError, match=words):
            make()
    with pytest.raises(AttributeError):
        one.a = 3.0
    with pytest.raises(AttributeError):
        one.other = 3.0
