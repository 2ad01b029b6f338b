"""How far a model moved: equal to the distance in the kernel's space, the shares add up, points are matched by their examples."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import onkel
from onkel.reasons.change import change, movement

RNG = np.random.default_rng(5)
X = RNG.normal(size=(200, 3))
SIGNS = np.sign(X[:, 0])
CODES = (X[:, 1] > 0).astype(int) + (X[:, 2] > 0)
RBF = onkel.RBF(1.0)
LEARNERS = {
    "silk": (onkel.silk(RBF, onkel.Hinge(), budget=15), SIGNS),
    "merge": (onkel.silk(RBF, onkel.Hinge(), budget=15, drop="merge"), SIGNS),
    "tree": (onkel.silk(RBF, onkel.Structured(onkel.Labels.tree([-1, 0, 0, 1, 1])), budget=15), CODES),
    "all": (onkel.ilk(onkel.Polynomial(2), onkel.Square(), eta=0.01), X[:, 0]),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_equal_to_the_distance(name, sparse):
    learner, y = LEARNERS[name]
    rows = csr_matrix(X) if sparse else X
    one, _ = learner.learn(learner.init(), rows[:90], y[:90])
    two, _ = learner.learn(one, rows[90:], y[90:])
    moved = change(learner, one, two)
    points = np.vstack([np.asarray(s.points.toarray() if sparse else s.points) for s in (one, two)])
    coef = np.concatenate([-one.coef, two.coef]).reshape(len(points), -1)
    kappa = np.eye(1) if learner.outputs == 1 else learner.loss.labels.kernel
    square = np.einsum("iz,ij,jw,zw->", coef, learner.kernel(points, points), coef, kappa)
    assert moved.distance == pytest.approx(np.sqrt(square))
    assert moved.shares.sum() == pytest.approx(square)
    assert moved.arrived.sum() + np.isin(moved.born, one.born[one.order]).sum() == len(moved.born)
    assert moved.left.sum() + two.size == len(moved.born)
    np.testing.assert_array_equal(moved.points.toarray() if sparse else moved.points, X[moved.born - 1])


def test_nothing_moves_between_a_state_and_itself():
    learner, y = LEARNERS["silk"]
    state, _ = learner.learn(learner.init(), X, y)
    same = change(learner, state, state)
    assert same.distance == 0.0
    assert not same.arrived.any()
    assert not same.left.any()
    assert change(learner, learner.init(), learner.init()).distance == 0.0
    born = change(learner, learner.init(), state)
    assert born.distance == pytest.approx(born.norms[1])
    assert born.arrived.all()
    assert "came, 0 left" in str(born)


def test_wrong_order_and_other_learners():
    learner, y = LEARNERS["silk"]
    state, _ = learner.learn(learner.init(), X, y)
    with pytest.raises(ValueError, match="earlier"):
        change(learner, state, learner.init())
    other, codes = LEARNERS["tree"]
    with pytest.raises(ValueError, match="one learner"):
        change(other, state, other.learn(other.init(), X, codes)[0])


def test_rises_when_the_concept_turns_round():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 2))
    y = np.sign(rows[:, 0] * rows[:, 1]) * np.where(np.arange(3000) < 2000, 1, -1)
    learner = onkel.silk(RBF, onkel.Hinge(), lam=0.001, budget=80)
    times, moved = movement(learner, rows, y, every=100)
    still = moved[(times > 1000) & (times <= 2000)]
    assert moved[times == 2100] > still.max()
    with_history, _ = movement(learner, rows, y, every=100, back=3)
    assert len(with_history) == len(times) - 2


def test_objects():
    alike = onkel.silk(lambda A, B: np.array([[float(a[0] == b[0]) for b in B] for a in A]), onkel.Hinge(), budget=2)
    one, _ = alike.learn(alike.init(), ["ab", "ba"], [1, -1])
    two, _ = alike.learn(one, ["bc", "ca"], [1, -1])
    moved = change(alike, one, two)
    assert moved.points == [["ab", "ba", "bc", "ca"][b - 1] for b in moved.born]
