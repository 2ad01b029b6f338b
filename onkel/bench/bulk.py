"""Whole blocks: learning, with one and with ten outputs, the papers' algorithms beside each other, scoring, sparse rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import onkel

from . import streams
from .measure import SGEMM, Contender, Race, Results, limits, percent_of_sgemm
from .naive import Silk, SilkClasses, SparseSilk
from .rows import AT_MOST, Row, dearer, faster, microseconds, share

ETA, LAM = 1.0, 0.01


class Size(NamedTuple):
    """How long the run is: rounds, about how many seconds each contender has in a round, and a divisor for tiny test runs."""

    rounds: int
    seconds: float
    shrink: int = 1

    def examples(self, seconds_each: float, least: int = 64) -> int:
        return max(least, int(self.seconds / seconds_each)) // self.shrink + 1

    def budget(self, omega: int) -> int:
        return max(8, omega // self.shrink)


class Shape(NamedTuple):
    d: int
    omega: int
    times_naive: float | None = None
    percent: float | None = None
    times_naive_classes: float | None = None
    percent_of_binary: float | None = None

    @property
    def title(self) -> str:
        return f"d = {self.d}, omega = {self.omega}"

    @property
    def flops(self) -> float:
        """The useful ones of an example: one product with every point of the budget."""
        return 2.0 * self.d * self.omega


SHAPES = (
    Shape(2, 100, times_naive=60, times_naive_classes=50),
    Shape(20, 128, times_naive=45, times_naive_classes=50),
    Shape(256, 512, percent=55, percent_of_binary=90),
    Shape(784, 128, percent=42, percent_of_binary=90),
    Shape(784, 1024, percent=65, percent_of_binary=90),
    Shape(784, 4096, percent=75, percent_of_binary=90),
)
CLASSES = 10
OURS, NAIVE, OURS_CLASSES, NAIVE_CLASSES = "onkel", "naive NumPy", "onkel, 10 classes", "naive NumPy, 10 classes"


def filled(learner: Any, make: Callable[[int, int], tuple[Any, Any]], omega: int) -> Any:
    """A state whose budget is full: timing starts there."""
    state = learner.init()
    for seed in range(1, 200):
        state, _ = learner.learn(state, *make(max(256, omega), seed))
        if state.size == omega and state.t >= 2 * omega:
            return state
    raise RuntimeError(f"the budget of {omega} was not full after {state.t} examples; the stream is too easy for {learner}")


def learn_block(learner: Any, state: Any, X: Any, y: Any, r: int) -> float:
    """One call for the whole block, from the same state every time; returns the share predicted right before learning."""
    return float(1.0 - learner.learn(state, X, y)[1].mistake.mean())


def bulk(size: Size) -> Iterator[Race]:
    """SILK with RBF kernel and hinge loss in float32, against naive NumPy in float64 and the SGEMM peak."""
    for shape in SHAPES:
        shape = shape._replace(omega=size.budget(shape.omega))
        d, omega, *_ = shape
        sigma = streams.width(d)
        n = size.examples(max(2e-7, shape.flops / 6e10), least=512)
        n_naive = size.examples(1.5e-5 + 8.0 * d * omega / 1e10, least=32)
        contenders = []
        for name, classes, loss in ((OURS, 2, onkel.Hinge()), (OURS_CLASSES, CLASSES, _flat())):
            learner = onkel.silk(onkel.RBF(sigma), loss, eta=ETA, lam=LAM, budget=omega)
            make = partial(streams.signs, d) if classes == 2 else partial(streams.clusters, d, classes)
            state = filled(learner, make, omega)
            X, y = make(n, 0)
            naive = partial(_naive_block, classes, state, sigma, X[:n_naive].astype(float), y[:n_naive])
            contenders += [
                Contender(name, partial(learn_block, learner, state, X, y), n),
                Contender(NAIVE if classes == 2 else NAIVE_CLASSES, naive, n_naive),
            ]
        yield Race(f"bulk, {shape.title}", [*contenders, *limits()], partial(bulk_rows, shape))


def _flat() -> Any:
    return onkel.Structured(onkel.Labels.flat(CLASSES))


def _naive_block(classes: int, state: Any, sigma: float, X: Any, y: Any, r: int) -> float:
    model = (Silk if classes == 2 else SilkClasses)(state.points, state.coef, sigma, ETA, LAM)
    scores = model.learn(X, y)
    return float((scores * y > 0).mean() if classes == 2 else (scores.argmax(1) == y).mean())


def bulk_rows(shape: Shape, results: Results) -> list[Row]:
    ours, ten = results[OURS], results[OURS_CLASSES]
    percent, percent_ten = (percent_of_sgemm(shape.flops, result, results) for result in (ours, ten))
    name, name_ten = f"bulk, {shape.title}", f"10 classes, {shape.title}"
    rows = [faster(name, ours, results[NAIVE], shape.times_naive, percent)]
    if shape.d == 2:
        rows.append(microseconds(name, ours, 0.2))
    if shape.percent:
        rows.append(share(name, ours, percent, shape.percent))
    rows.append(faster(name_ten, ten, results[NAIVE_CLASSES], shape.times_naive_classes, percent_ten))
    if shape.percent_of_binary:
        rows.append(share(name_ten, ten, 100.0 * ours.median / ten.median, shape.percent_of_binary, "the binary rate"))
    return rows


def methods(size: Size) -> Iterator[Race]:
    """What SVMD's adaptation and SILK's merging cost, over NORMA with the same budget."""
    for d, omega in ((256, size.budget(512)), (784, size.budget(1024))):
        kernel, loss = onkel.RBF(streams.width(d)), onkel.Hinge()
        learners = {
            "NORMA": onkel.norma(kernel, loss, eta=0.5, lam=LAM, budget=omega),
            "SVMD": onkel.svmd(kernel, loss, eta=0.5, lam=LAM, budget=omega, eta_max=1.0),
            "SILK, merge": onkel.silk(kernel, loss, eta=ETA, lam=LAM, budget=omega, drop="merge"),
        }
        n = size.examples(2.0 * d * omega / 4e10, least=512)
        X, y = streams.signs(d, n)
        contenders = [
            Contender(name, partial(learn_block, learner, filled(learner, partial(streams.signs, d), omega), X, y), n)
            for name, learner in learners.items()
        ]
        yield Race(f"methods, d = {d}, omega = {omega}", contenders, partial(_method_rows, f"d = {d}, omega = {omega}"))


def _method_rows(title: str, results: Results) -> list[Row]:
    return [dearer(f"{name}, {title}", results[name], results["NORMA"], 2.0) for name in ("SVMD", "SILK, merge")]


def score(size: Size) -> Iterator[Race]:
    """Scoring a large batch, by the learner and through the estimator's door."""
    for d, omega in ((784, size.budget(1024)), (784, size.budget(4096))):
        sigma = streams.width(d)
        learner = onkel.silk(onkel.RBF(sigma), onkel.Hinge(), eta=ETA, lam=LAM, budget=omega)
        state = filled(learner, partial(streams.signs, d), omega)
        model = onkel.KernelClassifier(gamma=0.5 / sigma**2, lam=LAM, budget=omega, drop="smallest")
        for seed in range(1, 200):
            if seed > 2 and model.state_.size == omega:
                break
            model.partial_fit(*streams.clusters(d, 2, max(256, omega), seed))
        n = size.examples(2.0 * d * omega / 8e10, least=512)
        X, y = streams.clusters(d, 2, n)

        def by_score(r: int, learner: Any = learner, state: Any = state, X: Any = X, y: Any = y) -> float:
            return float(((learner.score(state, X) > 0) == y).mean())

        def by_door(r: int, model: Any = model, X: Any = X, y: Any = y) -> float:
            return float(((model.decision_function(X) > 0) == y).mean())

        contenders = [Contender("score", by_score, n), Contender("decision_function", by_door, n), *limits()]
        yield Race(f"scoring, d = {d}, omega = {omega}", contenders, partial(_score_rows, d, omega))


def _score_rows(d: int, omega: int, results: Results) -> list[Row]:
    return [
        share(f"{name}, d = {d}, omega = {omega}", results[name], percent_of_sgemm(2.0 * d * omega, results[name], results), 75)
        for name in ("score", "decision_function")
    ]


SCIPY = {"SciPy row by row": (False, 5e-4, 20.0), "SciPy row by row, dense vector": (True, 1e-4, None)}  # seconds each, target


def sparse(size: Size) -> Iterator[Race]:
    """Linear kernel on CSR rows."""
    omega = size.budget(1024)
    learner = onkel.silk(onkel.Linear(), onkel.Hinge(), eta=ETA, lam=LAM, budget=omega)
    state = filled(learner, streams.documents, omega)
    n = size.examples(1e-5, least=256)
    X, y = streams.documents(n)

    def by_scipy(spread: bool, part: int, r: int) -> float:
        scores = SparseSilk(state.points, state.coef, ETA, LAM, spread).learn(X[:part], y[:part])
        return float((scores * y[:part] > 0).mean())

    contenders = [Contender(OURS, partial(learn_block, learner, state, X, y), n), *limits()]
    for name, (spread, seconds, _) in SCIPY.items():
        part = min(n, size.examples(seconds))
        contenders.append(Contender(name, partial(by_scipy, spread, part), part))
    title = f"CSR, 34,000 features, omega = {omega}"
    rows = [(name, target) for name, (*_, target) in SCIPY.items()]
    yield Race(title, contenders, lambda results: [faster(title, results[OURS], results[name], target) for name, target in rows])


MANY = 16
POINTS = {
    "their own points": (20, 512, onkel.silk, onkel.Hinge(), 9.0),
    "the same points": (784, 1024, onkel.norma, onkel.Logistic(), None),
}


def many(size: Size) -> Iterator[Race]:
    """Sixteen configurations on one stream, by the clock on the wall, in the best round: this is about the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for points, (d, budget, recipe, loss, target) in POINTS.items():
        omega = size.budget(budget)
        n = max(4 * omega, size.examples(4e-6 * max(1.0, d * omega / 5e4)))  # what counts is the long run
        X, y = streams.signs(d, n)
        learners = [
            recipe(onkel.RBF(factor * streams.width(d)), loss, eta=0.5, lam=lam, budget=omega)
            for factor in (0.5, 1.0, 2.0, 4.0)
            for lam in (0.001, 0.003, 0.01, 0.03)
        ]
        pool, middle = ThreadPoolExecutor(cores), learners[5]
        work = {
            "together": partial(_together, learners, X, y),
            "in turn": partial(_in_turn, learners, X, y),
            "alone": partial(_in_turn, [middle], X, y),
            "side by side": partial(_side_by_side, pool, cores, middle, X, y),
        }
        contenders = [Contender(name, do, n, time.perf_counter) for name, do in work.items()]
        title = f"learn_many, {MANY} with {points}"
        yield Race(
            f"{title}, d = {d}, omega = {omega}", contenders, partial(_many_rows, title, cores, target if cores == 2 else None)
        )


def _together(learners: list[Any], X: Any, y: Any, r: int) -> None:
    onkel.learn_many(learners, X, y)


def _in_turn(learners: list[Any], X: Any, y: Any, r: int) -> None:
    for learner in learners:
        learner.learn(learner.init(), X, y)


def _side_by_side(pool: ThreadPoolExecutor, cores: int, learner: Any, X: Any, y: Any, r: int) -> None:
    """As many of one learner as there are cores, each on its own: what the machine has to give."""
    for running in [pool.submit(learner.learn, learner.init(), X, y) for _ in range(cores)]:
        running.result()


def _many_rows(title: str, cores: int, target: float | None, results: Results) -> list[Row]:
    one, both = results["in turn"].best / MANY, results["together"].best
    rows = [Row(f"{title}, {cores} cores, wall", "one of them", both / one, "x cost", AT_MOST, target, both, one)]
    if title.endswith("own points"):  # where points are shared there is less to do
        alone, limit = results["alone"].best, results["side by side"].best / cores
        rows.append(Row(rows[0].path, f"{cores} learners side by side", 100.0 * MANY * one * limit / alone / both, "%"))
    return rows


__all__ = ["SGEMM", "Size", "bulk", "many", "methods", "score", "sparse"]
