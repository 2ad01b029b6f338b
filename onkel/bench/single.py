"""One example at a time, ours and the peers', each predicting before it learns.

Peers get their input in the form that they like best, made beforehand: River dicts, scikit-learn arrays of one row.  The
stream is the drifting one of the NORMA paper, in two dimensions of equal scale, so nobody needs a scaler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import onkel
from onkel.streams import moving_mixtures

from . import streams
from .bulk import Size
from .measure import Contender, Race, Results
from .rows import Row, faster, microseconds

GAMMA, OMEGA = 0.5, 100
CALL, BULK = "onkel, one call each", "onkel, bulk"


def estimator() -> Any:
    """SILK behind scikit-learn's door."""
    return onkel.KernelClassifier(gamma=GAMMA, budget=OMEGA, drop="smallest", lam=1e-3)


def one(size: Size) -> Iterator[Race]:
    """learn_one and predict_one, each alone; the budget is full."""
    n = size.examples(1e-6, least=256)
    X, y = streams.clusters(2, 2, n)
    rows, labels = list(X), y.tolist()
    contenders = []
    for suffix, drop in (("", "smallest"), (", merge", "merge")):
        model = onkel.KernelClassifier(gamma=0.5 / streams.width(2) ** 2, budget=OMEGA, drop=drop, lam=0.01)
        model.partial_fit(*streams.clusters(2, 2, 4000, seed=1))
        contenders += [
            Contender(f"learn_one{suffix}", _each(model.learn_one, rows, labels), n),
            Contender(f"predict_one{suffix}", _predictions(model.predict_one, rows, labels), n),
        ]

    def table(results: Results) -> list[Row]:
        title = "KernelClassifier.{}, d = 2, omega = 100"
        targets = {"learn_one": 1.0, "predict_one": 0.8}
        return [microseconds(title.format(name), result, targets.get(name)) for name, result in results.items()]

    yield Race("one example", contenders, table)


def _each(learn: Callable[[Any, Any], Any], rows: list[Any], labels: list[Any]) -> Callable[[int], None]:
    def work(r: int) -> None:
        for x, y in zip(rows, labels):
            learn(x, y)

    return work


def _predictions(predict: Callable[[Any], Any], rows: list[Any], labels: list[Any]) -> Callable[[int], float]:
    def work(r: int) -> float:
        right = 0
        for x, y in zip(rows, labels):
            right += predict(x) == y
        return right / len(rows)

    return work


# --- a stream that goes on from round to round ------------------------------------------------------------------------------------


def segments(X: Any, y: Any, count: int) -> list[tuple[Any, Any]]:
    """The stream in ``count`` parts of equal length."""
    step = len(y) // count
    return [(X[i * step : (i + 1) * step], y[i * step : (i + 1) * step]) for i in range(count)]


def test_then_train(predict: Callable[[Any], Any], learn: Callable[[Any, Any], Any], parts: list[Any]) -> Callable[[int], float]:
    """Predict each example, then learn it; round r is the r-th part of the stream."""

    def work(r: int) -> float:
        right = 0
        rows, labels = parts[r]
        for x, y in zip(rows, labels):
            right += predict(x) == y
            learn(x, y)
        return right / len(labels)

    return work


def _as_dicts(part: tuple[Any, Any]) -> tuple[list[dict[int, float]], list[bool]]:
    return [dict(enumerate(row)) for row in part[0].tolist()], (part[1] > 0).tolist()


def _as_single_rows(part: tuple[Any, Any]) -> tuple[list[Any], list[float]]:
    return [part[0][i : i + 1] for i in range(len(part[1]))], part[1].tolist()


def peers(size: Size) -> Iterator[Race]:
    """Ours against River's and scikit-learn's classifiers and Vowpal Wabbit's kernel SVM on a drifting stream."""
    rounds = size.rounds + 1
    fast, slow = size.examples(2e-6, least=300), size.examples(2e-4, least=300)
    middle = min(fast, 10 * slow)
    X, y = moving_mixtures(fast * rounds, gaussians=6, seed=3)
    X = X.astype(np.float32)

    def parts(n: int) -> list[tuple[Any, Any]]:
        return segments(X[: n * rounds], y[: n * rounds], rounds)

    model = estimator()
    rows = [(list(part[0]), part[1].tolist()) for part in parts(fast)]
    model.learn_one(rows[0][0][0], rows[0][1][0])
    learner = onkel.silk(onkel.RBF((0.5 / GAMMA) ** 0.5), onkel.Hinge(), lam=1e-3, budget=OMEGA)
    contenders = [
        Contender(CALL, test_then_train(model.predict_one, model.learn_one, rows), fast),
        Contender(BULK, _in_bulk(learner, parts(fast)), fast),
        *_river(parts, middle, slow),
        *_scikit(parts, middle, slow),
        *_vowpal(parts, slow),
    ]

    def table(results: Results) -> list[Row]:
        targets = {
            "River LogisticRegression": (CALL, 4.0),
            "River HoeffdingTree": (CALL, 20.0),
            "River ARF(10)": (CALL, 500.0),
            "scikit-learn SGD, row by row": (CALL, 500.0),
            "scikit-learn RBFSampler(256) + SGD, by 32": (BULK, 100.0),
            "scikit-learn SVC, sliding window": (BULK, None),
            "Vowpal Wabbit --ksvm": (CALL, None),
        }
        return [
            faster("one call each, d = 2" if ours == CALL else "bulk, d = 2", results[ours], results[name], target)
            for name, (ours, target) in targets.items()
            if name in results
        ]

    yield Race("peers", contenders, table)


def _in_bulk(learner: Any, parts: list[tuple[Any, Any]]) -> Callable[[int], float]:
    state = [learner.init()]

    def work(r: int) -> float:
        state[0], trace = learner.learn(state[0], *parts[r])
        return float(1.0 - trace.mistake.mean())

    return work


def _river(parts: Any, middle: int, slow: int) -> Iterator[Contender]:
    if not find_spec("river"):
        return
    from river import forest, linear_model, tree

    for name, model, n in (
        ("River LogisticRegression", linear_model.LogisticRegression(), middle),
        ("River HoeffdingTree", tree.HoeffdingTreeClassifier(), middle),
        ("River ARF(10)", forest.ARFClassifier(n_models=10, seed=1), slow),
    ):
        yield Contender(name, test_then_train(model.predict_one, model.learn_one, [_as_dicts(part) for part in parts(n)]), n)


def _scikit(parts: Any, middle: int, slow: int) -> Iterator[Contender]:
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier

    labels = [-1.0, 1.0]
    linear = SGDClassifier(loss="hinge", random_state=1).partial_fit(parts(slow)[0][0][:1], [-1.0], labels)
    yield Contender(
        "scikit-learn SGD, row by row",
        test_then_train(
            lambda x: linear.predict(x)[0], lambda x, y: linear.partial_fit(x, [y]), [_as_single_rows(p) for p in parts(slow)]
        ),
        slow,
    )

    sampler = RBFSampler(gamma=GAMMA, n_components=256, random_state=1).fit(parts(slow)[0][0])
    on_features = SGDClassifier(loss="hinge", random_state=1)
    on_features.partial_fit(sampler.transform(parts(slow)[0][0][:1]), [-1.0], labels)
    batches = parts(middle)

    def by_32(r: int) -> float:
        right, (X, y) = 0, batches[r]
        for start in range(0, len(y), 32):
            features, truth = sampler.transform(X[start : start + 32]), y[start : start + 32]
            right += int((on_features.predict(features) == truth).sum())
            on_features.partial_fit(features, truth)
        return right / len(y)

    yield Contender("scikit-learn RBFSampler(256) + SGD, by 32", by_32, middle)
    yield Contender("scikit-learn SVC, sliding window", _sliding_window(batches), middle)


def _sliding_window(batches: list[tuple[Any, Any]], window: int = 500, every: int = 100) -> Callable[[int], float]:
    """Fit anew on the last 500 examples after each 100, and predict these 100 with it."""
    from sklearn.svm import SVC

    whole_X, whole_y = (np.concatenate([part[i] for part in batches]) for i in (0, 1))
    length = len(batches[0][1])
    model = SVC(gamma=GAMMA)

    def work(r: int) -> float:
        right = 0
        for start in range(r * length, (r + 1) * length, every):
            now, past = slice(start, min(start + every, (r + 1) * length)), slice(max(0, start - window), start)
            if len(set(whole_y[past])) == 2:
                model.fit(whole_X[past], whole_y[past])
                right += int((model.predict(whole_X[now]) == whole_y[now]).sum())
        return right / length

    return work


def _vowpal(parts: Any, slow: int) -> Iterator[Contender]:
    if not find_spec("vowpalwabbit"):
        return
    import vowpalwabbit

    model = vowpalwabbit.Workspace(f"--ksvm --kernel rbf --bandwidth {GAMMA} --l2 0.001 --quiet")
    lines = [
        ([" ".join(f"{j}:{value:g}" for j, value in enumerate(row)) for row in part[0].tolist()], part[1].tolist())
        for part in parts(slow)
    ]

    def predict(line: str) -> float:
        return 1.0 if model.predict(f"| {line}") > 0 else -1.0

    def learn(line: str, y: float) -> None:
        model.learn(f"{y:g} | {line}")

    yield Contender("Vowpal Wabbit --ksvm", test_then_train(predict, learn, lines), slow)


def novelty(size: Size) -> Iterator[Race]:
    """One call to score and one to learn, for each example; the quality is the area under the ROC curve."""
    n, rounds = size.examples(4e-5, least=200), size.rounds + 1
    X, odd = streams.with_outliers(n * rounds)
    parts = segments(X, odd, rounds)
    ours = onkel.NoveltyDetector(gamma=50.0, budget=OMEGA, drop="smallest")
    ours.partial_fit(streams.with_outliers(500, seed=1)[0])

    def alarm(x: Any) -> float:
        return -ours.score_one(x)

    models = [(CALL, alarm, ours.learn_one, [(list(rows), truth) for rows, truth in parts])]
    if find_spec("river"):
        from river import anomaly

        dicts = [(_as_dicts((rows, truth))[0], truth) for rows, truth in parts]
        for name, model in (
            ("River OneClassSVM", anomaly.OneClassSVM(nu=0.05)),
            ("River HalfSpaceTrees", anomaly.HalfSpaceTrees(seed=1)),
        ):
            models.append((name, model.score_one, model.learn_one, dicts))
    contenders = [Contender(name, _score_then_train(*rest), n) for name, *rest in models]

    def table(results: Results) -> list[Row]:
        title = "novelty, one call each, d = 2"
        return [faster(title, results[CALL], result) for name, result in results.items() if name != CALL]

    yield Race("novelty", contenders, table)


def _score_then_train(score: Any, learn: Any, parts: list[tuple[Any, Any]]) -> Callable[[int], float]:
    def work(r: int) -> float:
        rows, odd = parts[r]
        scores = []
        for x in rows:
            scores.append(score(x))
            learn(x)
        return streams.area_under_roc(np.array(scores), odd)

    return work
