"""`onkel bench quality`: what the self-tuning estimators reach on raw columns in the given order, predict then learn.

Streams that helped to settle the constants and streams that did not are told apart. With --peers River's learners run beside them
on the same rows; --quick takes the first 2,000 rows of each stream.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from onkel import AutoClassifier, AutoDetector, AutoRegressor, data


class Stream(NamedTuple):
    """A stream, the least that is asked of it, and the bytes that it may take."""

    name: str
    read: Callable[[Any], tuple[np.ndarray, np.ndarray]]
    asked: float | None = None
    budget: str = "100kB"
    kept_aside: bool = False


# --- streams ----------------------------------------------------------------------------------------------------------------------


def _set(name: str, rows: int | None = None) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
    def read(folder: Any) -> tuple[np.ndarray, np.ndarray]:
        found = data.load(name, directory=folder)
        return np.asarray(found.X, float)[:rows], np.asarray(found.y)[:rows]

    return read


def _river(name: str) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
    def read(folder: Any) -> tuple[np.ndarray, np.ndarray]:
        from river import datasets

        rows = list(getattr(datasets, name)())
        return np.array([[float(v) for v in x.values()] for x, _ in rows]), np.array([y for _, y in rows])

    return read


def _shuffled(read: Callable[[Any], tuple[np.ndarray, np.ndarray]]) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
    def shuffled(folder: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = read(folder)
        order = np.random.default_rng(0).permutation(len(y))
        return X[order], y[order]

    return shuffled


def _connections(folder: Any) -> tuple[np.ndarray, np.ndarray]:
    """Every tenth row of kddcup99: log(1 + numbers), the three texts as columns of 0 and 1."""
    import lzma

    with lzma.open(data.find("kddcup99", folder) / "kddcup99_10_percent.csv.xz", "rt") as file:
        cells = np.array([line.rstrip().split(",") for line in file.readlines()[::10]])
    texts = [cells[:, c][:, None] == np.unique(cells[:, c]) for c in (1, 2, 3)]
    numbers = np.log1p(cells[:, [c for c in range(41) if c not in (1, 2, 3)]].astype(float))
    return np.hstack([numbers, *texts]), (cells[:, 41] != "normal.").astype(int)


def _file(name: str) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
    """A set that is only looked for beside the others."""

    def read(folder: Any) -> tuple[np.ndarray, np.ndarray]:
        for place in data.places(folder):
            if (place / name / f"{name}.npz").is_file():
                with np.load(place / name / f"{name}.npz") as f:
                    if "X_train" in f:
                        return np.vstack([f["X_train"], f["X_test"]]).astype(float), np.concatenate([f["y_train"], f["y_test"]])
                    return f["X"][f["orders"][0]].astype(float), f["y"][f["orders"][0]]
        raise data.MissingData(f"the data set {name!r} is not here; name its folder with --data or ONKEL_DATA")

    return read


def _column(name: str, column: int) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
    """One column of a set, from the others."""

    def read(folder: Any) -> tuple[np.ndarray, np.ndarray]:
        X = _set(name)(folder)[0]
        return np.delete(X, column, axis=1), X[:, column]

    return read


def _diabetes(folder: Any) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)  # type: ignore[no-any-return]


def _friedman(folder: Any) -> tuple[np.ndarray, np.ndarray]:
    from river.datasets import synth

    rows = list(synth.FriedmanDrift(drift_type="lea", position=(2500, 5000, 7500), seed=42).take(10_000))
    return np.array([list(x.values()) for x, _ in rows]), np.array([y for _, y in rows])


def _gas(folder: Any) -> tuple[np.ndarray, np.ndarray]:
    with np.load(data.find("gas_drift", folder) / "gas_drift_8of10.npz") as f:
        return f["XT"].T.astype(float), f["concentration_ppm"].astype(float)


CLASSES = (
    Stream("electricity", _set("electricity"), 94.7),
    Stream("weather", _set("weather"), 80.3),
    Stream("covtype", _set("covtype"), 93.5),
    Stream("gas_drift", _set("gas_drift"), 98.95),
    Stream("kddcup99, every 10th", _connections, 99.9),
    Stream("Phishing", _river("Phishing"), 91.8),
    Stream("Bananas", _river("Bananas"), 89.3),
    Stream("ImageSegments", _river("ImageSegments"), 94.6),
    Stream("usps", _set("usps", 7291), 93.2),
    Stream("digits", _set("digits"), 96.6),
    Stream("wipo_d, shuffled", _shuffled(_set("wipo_d")), 44.8, "150kB"),
    Stream("satimage", _file("satimage"), kept_aside=True),
    Stream("pendigits", _file("pendigits"), kept_aside=True),
    Stream("letter", _file("letter")),
    Stream("spambase", _file("spambase")),
    Stream("german", _file("german")),
    Stream("dna", _file("dna"), kept_aside=True),
)
REALS = (
    Stream("TrumpApproval", _river("TrumpApproval"), 0.195),
    Stream("ChickWeights", _river("ChickWeights"), 18.2),
    Stream("diabetes", _diabetes, 49.0),
    Stream("electricity demand", _column("electricity", 2), 0.0088),
    Stream("weather temperature", _column("weather", 0), 1.07),
    Stream("Friedman with drift", _friedman, 1.19),
    Stream("gas concentration", _gas, 2950.0),
    Stream("mg", _file("mg"), kept_aside=True),
    Stream("housing", _file("housing"), kept_aside=True),
)


def _novelties(folder: Any) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    X, y = _connections(folder)
    attacks = np.flatnonzero(y == 1)
    there = np.sort(np.concatenate([np.flatnonzero(y == 0), attacks[::60]]))
    yield "kddcup99", X[there], y[there]
    order = np.random.default_rng(0).permutation(len(there))
    yield "kddcup99, shuffled", X[there][order], y[there][order]
    X, y = _set("covtype")(folder)
    there = np.isin(y, (1, 3))
    X, odd = X[there][:, :10], (y[there] == 3).astype(int)
    yield "covtype 2 / 4", X, odd
    order = np.random.default_rng(0).permutation(len(odd))
    yield "covtype 2 / 4, shuffled", X[order], odd[order]
    X, y = _set("usps", 7291)(folder)
    others = np.flatnonzero(~np.isin(y, (0, 1, 2, 7)))
    keep = np.sort(np.concatenate([np.flatnonzero(np.isin(y, (0, 1, 2, 7))), np.random.default_rng(0).choice(others, 120, False)]))
    yield "usps", X[keep], (~np.isin(y[keep], (0, 1, 2, 7))).astype(int)
    X, y = _set("gas_drift")(folder)
    keep = np.sort(np.concatenate([np.flatnonzero(y != 4), np.flatnonzero(y == 4)[::15]]))
    yield "gas_drift", X[keep], (y[keep] == 4).astype(int)


# --- the table --------------------------------------------------------------------------------------------------------------------


def report(arguments: argparse.Namespace) -> int:
    """Print what is reached, beside what is asked."""
    rows = 2000 if arguments.quick else None
    short = []
    print(f"{'classes':26} {'%':>7} {'asked':>7} {'small':>7} {'no change':>9} {'bytes':>9} {'us/row':>7}")
    for stream in CLASSES:
        found = _read(stream, arguments, rows)
        if found is not None:
            short += _classes(stream, *found, arguments.peers)
    print(f"\n{'numbers, mean error':26} {'error':>9} {'asked':>9} {'last value':>10} {'within .9':>9} {'bytes':>9} {'us/row':>7}")
    for stream in REALS:
        found = _read(stream, arguments, rows)
        if found is not None:
            short += _reals(stream, *found, arguments.peers)
    print(f"\n{'novelty':26} {'AUC':>7} {'bytes':>9} {'us/row':>7}")
    try:
        areas = [_novelty(name, X[:rows], odd[:rows]) for name, X, odd in _novelties(arguments.data)]
        print(f"{'mean':26} {np.nanmean(areas):7.3f}")
    except data.MissingData as missing:
        print(str(missing).splitlines()[0])
    if short and rows is None:
        print("\nshort of what is asked: " + "; ".join(short))
    return 0


def _read(stream: Stream, arguments: argparse.Namespace, rows: int | None) -> tuple[np.ndarray, np.ndarray] | None:
    try:
        X, y = stream.read(arguments.data)
    except (data.MissingData, ImportError) as missing:
        print(f"{stream.name:26} left out: {str(missing).splitlines()[0]}")
        return None
    return X[:rows], y[:rows]


def _timed(learn: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    begin = time.process_time()
    said = learn(*given)
    return said, 1e6 * (time.process_time() - begin) / len(given[0])


def _classes(stream: Stream, X: np.ndarray, y: np.ndarray, peers: bool) -> list[str]:
    AutoClassifier(stream.budget).learn_predict(X[:150], y[:150])  # compiled, when the clock starts
    model = AutoClassifier(stream.budget)
    said, us = _timed(model.learn_predict, X, y)
    reached = 100 * float((said == y).mean())
    small = 100 * float((AutoClassifier(stream.budget, members="small").learn_predict(X, y) == y).mean())
    idle = 100 * float((y[1:] == y[:-1]).sum() / len(y))
    asked = f"{stream.asked:7.2f}" if stream.asked else f"{'aside' if stream.kept_aside else '-':>7}"
    print(f"{stream.name:26} {reached:7.2f} {asked} {small:7.2f} {idle:9.2f} {model.nbytes:9,} {us:7.1f}", flush=True)
    if peers:
        from river import ensemble, forest, linear_model, multiclass, neighbors, preprocessing, tree

        several = len(set(y.tolist())) > 2
        linear = [linear_model.LogisticRegression(), linear_model.PAClassifier(C=1), linear_model.ALMAClassifier()]
        for peer in (
            *[preprocessing.StandardScaler() | (multiclass.OneVsRestClassifier(m) if several else m) for m in linear],
            preprocessing.StandardScaler() | neighbors.KNNClassifier(),
            tree.HoeffdingAdaptiveTreeClassifier(seed=0),
            forest.ARFClassifier(10, seed=0),
            forest.AMFClassifier(10, seed=0),
            ensemble.SRPClassifier(n_models=10, seed=0),
        ):
            _peer(peer, X, y.tolist(), lambda said, truth: 100 * float(np.mean([a == b for a, b in zip(said, truth)])))
    return [f"{stream.name} {reached:.2f} < {stream.asked}"] if stream.asked and reached < stream.asked else []


def _reals(stream: Stream, X: np.ndarray, y: np.ndarray, peers: bool) -> list[str]:
    AutoRegressor(stream.budget).learn_predict(X[:150], y[:150])
    model = AutoRegressor(stream.budget)
    said, us = _timed(model.learn_predict, X, y)
    reached = float(np.abs(said - y).mean())
    last = float(np.abs(np.diff(y, prepend=0.0)).mean())
    other = AutoRegressor(stream.budget)
    held, half = 0, len(y) // 2
    other.partial_fit(X[:half], y[:half])
    for start in range(half, len(y), 50):  # intervals of fifty rows at a time, before they are learned
        piece = slice(start, start + 50)
        low, high = other.predict_interval(X[piece]).T
        held += int(((low <= y[piece]) & (y[piece] <= high)).sum())
        other.partial_fit(X[piece], y[piece])
    asked = f"{stream.asked:9.4g}" if stream.asked else f"{'aside' if stream.kept_aside else '-':>9}"
    within = held / (len(y) - half)
    print(f"{stream.name:26} {reached:9.4g} {asked} {last:10.4g} {within:9.2f} {model.nbytes:9,} {us:7.1f}", flush=True)
    if peers:
        from river import forest, linear_model, preprocessing

        lags = np.column_stack([X, np.roll(y, 1), np.roll(y, 2)])
        lags[:2, -2:] = 0.0
        error = lambda said, truth: float(np.abs(np.array(said) - truth).mean())  # noqa: E731
        _peer(preprocessing.StandardScaler() | preprocessing.TargetStandardScaler(linear_model.LinearRegression()), X, y, error)
        _peer(forest.ARFRegressor(10, seed=0), X, y, error)
        _peer(forest.AMFRegressor(10, seed=0), X, y, error)
        _peer(forest.AMFRegressor(10, seed=0), lags, y, error, " with last values")
    return [f"{stream.name} {reached:.4g} > {stream.asked}"] if stream.asked and reached > stream.asked else []


def _peer(model: Any, X: np.ndarray, y: Any, score: Callable[..., float], note: str = "") -> None:
    name = str(model).split(" | ")[-1].split("(")[0] + note
    names = [str(j) for j in range(X.shape[1])]
    begin, said = time.process_time(), []
    for row, target in zip(X.tolist(), list(y)):
        x = dict(zip(names, row))
        said.append(model.predict_one(x) or 0)
        model.learn_one(x, target)
    print(f"    {name:22} {score(said, y):7.4g} {1e6 * (time.process_time() - begin) / len(y):60.1f} us/row", flush=True)


def _novelty(name: str, X: np.ndarray, odd: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    AutoDetector().learn_score(X[:150])
    model = AutoDetector()
    scores, us = _timed(model.learn_score, X)
    area = float(roc_auc_score(odd[100:], -scores[100:])) if 0 < odd[100:].sum() < len(odd) - 100 else np.nan
    print(f"{name:26} {area:7.3f} {model.nbytes:9,} {us:7.1f}", flush=True)
    return area
