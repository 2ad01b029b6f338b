"""Forgetting: by replay, to the bit as if never seen; by dropping, never further off than the bound says; ids kept and checked."""

import json
import pickle

import numpy as np
import pytest

import onkel
from onkel.reasons.unlearn import forget, unlearn, verify

RNG = np.random.default_rng(1)
X = RNG.normal(size=(150, 3))
Y = np.sign(X[:, 0] * X[:, 1])
IDS = np.array([f"person {i % 40}" for i in range(150)])
KERNEL, HINGE = onkel.RBF(1.0), onkel.Hinge()
GONE = ["person 7", "person 33"]
STAYS = ~np.isin(IDS, GONE)
SILK = onkel.silk(KERNEL, HINGE, budget=20)
LEARNERS = {
    "silk": SILK,
    "merge": onkel.silk(KERNEL, HINGE, budget=20, drop="merge"),
    "project": onkel.silk(KERNEL, HINGE, budget=20, drop="project"),
    "schedule": onkel.norma(KERNEL, HINGE, eta=onkel.InvSqrt(0.5), lam=0.1),
    "adaptive": onkel.svmd(KERNEL, onkel.Logistic(), budget=20),
}


def taught(learner, ids=IDS):
    return learner.learn(learner.init(), X, Y, ids=ids)[0]


def same(one, two):
    assert one.t == two.t
    for name in ("coef", "points", "trace_coef", "offset"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_array_equal(one.born[one.order], two.born[two.order])


# --- ids -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("block", [1, 37, 150])
def test_ids_stay_with_their_points(name, block):
    learner = LEARNERS[name]
    state = learner.init()
    assert state.ids is None
    for start in range(0, 150, block):
        piece = slice(start, start + block)
        state, _ = learner.learn(state, X[piece], Y[piece], ids=IDS[piece])
    assert state.ids == IDS[state.born[state.order] - 1].tolist()
    assert len(state.known.given) == state.size  # no id outlives its point


def test_ids_change_nothing_else(tmp_path):
    state = taught(SILK)
    same(state, SILK.learn(SILK.init(), X, Y)[0])
    path = tmp_path / "model.onkel"
    onkel.save((SILK, state), path)
    for again in (onkel.load(path)[1], pickle.loads(pickle.dumps(state)), state.copy()):
        assert again.ids == state.ids
        same(again, state)


BROKEN = [{"born": [1], "given": []}, {"born": [0], "given": [1]}, {"born": [1], "given": [1.5]}, {"born": [1]}, [1, 2]]


@pytest.mark.parametrize("ids", BROKEN)
def test_forged_ids_are_refused(ids):
    from onkel.saved.states import parts, state

    with pytest.raises(ValueError, match="damaged: its ids"):
        state(**{**parts(taught(SILK)), "ids": ids})


def test_some_ids_and_none():
    state, _ = SILK.learn(SILK.init(), X[:10], Y[:10])
    state, _ = SILK.learn(state, X[10:20], Y[10:20], ids=range(10))
    born = state.born[state.order]
    assert state.ids == [None if b <= 10 else b - 11 for b in born]
    state, _ = SILK.learn(state, X[20:], Y[20:])
    assert set(state.ids) <= {None, *range(10)}


def test_an_explanation_names_them():
    why = onkel.explain(SILK, taught(SILK), X[0])
    assert why.ids == taught(SILK).ids
    assert "(id person" in why.text()


@pytest.mark.parametrize(("ids", "says"), [(IDS[:9], "each of the 150"), ([1.5] * 150, "whole numbers or strings"), ("abc", "150")])
def test_wrong_ids(ids, says):
    state = SILK.init()
    with pytest.raises(ValueError, match=says):
        SILK.learn(state, X, Y, ids=ids)
    assert state.t == 0


# --- exact ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEARNERS)
def test_as_if_never_seen(name):
    learner = LEARNERS[name]
    state, certificate = unlearn(learner, (X, Y, IDS), GONE)
    same(state, learner.learn(learner.init(), X[STAYS], Y[STAYS])[0])
    assert not set(state.ids) & set(GONE)
    assert (certificate.stay, certificate.went) == (STAYS.sum(), (~STAYS).sum())
    assert verify(certificate, learner, state, (X, Y, IDS)) == []
    assert "person 7" not in json.dumps(certificate.to_dict())


def test_from_a_snapshot():
    snapshots, state = [], SILK.init()
    for start in range(0, 150, 25):
        state, _ = SILK.learn(state, X[start : start + 25], Y[start : start + 25], ids=IDS[start : start + 25])
        snapshots.append(state)
    first = int(np.flatnonzero(IDS == "person 33")[0])
    made, certificate = unlearn(SILK, (X, Y, IDS), ["person 33"], snapshots)
    assert certificate.replayed_from == 25 * (first // 25)
    whole, without = unlearn(SILK, (X, Y, IDS), ["person 33"])
    same(made, whole)
    assert (certificate.state, certificate.stream) == (without.state, without.stream)
    assert unlearn(SILK, (X, Y, IDS), ["person 0"], snapshots)[1].replayed_from == 0


def test_estimators():
    model = onkel.KernelClassifier(budget=20, gamma=0.5)
    made, certificate = unlearn(model.partial_fit(X, Y), (X, Y, IDS), GONE)
    never = onkel.KernelClassifier(budget=20, gamma=0.5).partial_fit(X[STAYS], Y[STAYS])
    np.testing.assert_array_equal(made.decision_function(X), never.decision_function(X))
    assert verify(certificate, made, None, (X, Y, IDS)) == []


def test_verify_says_what_is_wrong():
    state, certificate = unlearn(SILK, (X, Y, IDS), GONE)
    assert verify(certificate.to_dict(), SILK, state) == []
    other = onkel.silk(KERNEL, HINGE, budget=20, lam=0.02)
    assert "description" in verify(certificate, other, state)[0]
    assert "state" in verify(certificate, SILK, taught(SILK))[0]
    moved = X.copy()
    moved[0, 0] += 1e-12
    assert "examples that stay" in verify(certificate, SILK, state, (moved, Y, IDS))[0]
    assert "examples that stay" in verify(certificate, SILK, state, (X[::-1], Y[::-1], IDS[::-1]))[0]


def test_wrong_requests():
    for gone, says in ((["nobody"], "no example has the id 'nobody'"), ([], "gone is empty"), ([1.5], "whole numbers")):
        with pytest.raises(ValueError, match=says):
            unlearn(SILK, (X, Y, IDS), gone)
    with pytest.raises(ValueError, match=r"\(X, y, ids\)"):
        unlearn(SILK, (X, Y), GONE)
    with pytest.raises(ValueError, match="each of the 150"):
        unlearn(SILK, (X, Y, IDS[:5]), GONE)


def test_everybody_goes():
    state, certificate = unlearn(SILK, (X, Y, IDS), set(IDS.tolist()))
    assert state.t == certificate.stay == 0


# --- by dropping ---------------------------------------------------------------------------------------------------------

BOUNDED = {
    "ilk": onkel.ilk(KERNEL, HINGE, eta=0.5, lam=0.05),
    "no decay": onkel.ilk(KERNEL, HINGE, eta=0.1, lam=0.0),
    "logistic": onkel.norma(KERNEL, onkel.Logistic(), eta=0.5, lam=0.05),
    "silk": onkel.silk(KERNEL, HINGE, eta=0.5, lam=0.1, budget=30),
    "oldest": onkel.silk(KERNEL, onkel.Logistic(), eta=0.5, lam=0.1, budget=30, drop="oldest"),
    "norma": onkel.norma(KERNEL, HINGE, eta=0.5, lam=0.5),
    "falling": onkel.ilk(KERNEL, HINGE, eta=onkel.InvSqrt(1.0), lam=0.5),
}


def distance(one, two):
    points = np.vstack([one.points, two.points])
    coef = np.concatenate([one.coef, -two.coef])
    return np.sqrt(max(coef @ KERNEL(points, points) @ coef, 0.0))


@pytest.mark.parametrize("name", BOUNDED)
def test_what_is_left_is_no_more_than_the_bound(name):
    learner = BOUNDED[name]
    shares = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(60, 2))
        y = np.sign(rows[:, 0] * rows[:, 1])
        state, _ = learner.learn(learner.init(), rows, y, ids=range(60))
        stored = [one for one in state.ids if one is not None]
        gone = rng.choice(stored, size=int(rng.integers(1, 4)), replace=False)
        left, bound = forget(learner, state, gone)
        assert not set(left.ids) & set(gone.tolist())
        assert left.size == state.size - len(gone)
        stays = ~np.isin(np.arange(60), gone)
        never, _ = learner.learn(learner.init(), rows[stays], y[stays])
        shares.append(distance(left, never) / bound)
    assert max(shares) <= 1.0
    print(f"{name}: at most {max(shares):.2f} of the bound")
    assert max(shares) > 0.0


@pytest.mark.parametrize("name", LEARNERS)
def test_drops_their_terms_and_no_others_and_goes_on(name):
    learner = LEARNERS[name]
    state = taught(learner)
    who = state.ids[3]
    before = state.copy()
    left, bound = forget(learner, state, [who])
    same(state, before)
    assert bound > 0
    keep = [i for i, one in enumerate(state.ids) if one != who]
    np.testing.assert_array_equal(left.coef, state.coef[keep])
    np.testing.assert_array_equal(left.points, state.points[keep])
    expected = KERNEL(X[:5], state.points[keep]) @ state.coef[keep] + state.offset
    np.testing.assert_allclose(learner.score(left, X[:5]), expected, atol=1e-10)
    further, trace = learner.learn(left, X, Y)
    assert further.t == 300
    assert np.isfinite(trace.scores).all()


def test_forget_refuses():
    with pytest.raises(ValueError, match="keeps no ids"):
        forget(SILK, SILK.learn(SILK.init(), X, Y)[0], ["person 1"])
    with pytest.raises(ValueError, match=r"'nobody'.*unlearn"):
        forget(SILK, taught(SILK), ["nobody"])


def test_no_bound_where_none_is_proved():
    state = taught(LEARNERS["merge"])
    assert forget(LEARNERS["merge"], state, [state.ids[0]])[1] == np.inf
    linear = onkel.ilk(onkel.Linear(), HINGE, lam=0.1)
    state = taught(linear)
    assert forget(linear, state, [state.ids[0]])[1] == np.inf


# --- the command ---------------------------------------------------------------------------------------------------------


def test_onkel_verify(tmp_path, capsys):
    from onkel.cli import main

    state, certificate = unlearn(SILK, (X, Y, IDS), GONE)
    paper, good, bad = tmp_path / "forgotten.json", tmp_path / "good.onkel", tmp_path / "bad.onkel"
    paper.write_text(json.dumps(certificate.to_dict()))
    onkel.save((SILK, state), good)
    onkel.save((SILK, taught(SILK)), bad)
    assert main(["verify", str(paper), str(good)]) == 0
    assert "the certificate holds" in capsys.readouterr().out
    assert main(["verify", str(paper), str(bad)]) == 1
    assert "the state is another one" in capsys.readouterr().out
    assert main(["verify", str(good), str(good)]) == 2
    assert main(["verify", str(tmp_path / "none.json"), str(good)]) == 2
