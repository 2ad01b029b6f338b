"""`onkel bench gpu`: learning on the card, whole calls by the clock on the wall, data and results carried both ways.

Rows are MNIST's training set where --data (or ONKEL_DATA) has it, else random images of that shape.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import onkel
from onkel import data, gpu


def images(directory: Path | None) -> tuple[str, np.ndarray, np.ndarray]:
    try:
        X, y = data.load("mnist", directory=directory).train()
        order = np.random.default_rng(0).permutation(len(X))
        return "MNIST", (X[order] / 255.0).astype(np.float32), y[order]
    except data.MissingData:
        rng = np.random.default_rng(0)
        y = rng.integers(0, 10, 60_000)
        centres = rng.random((10, 784), np.float32) * (rng.random((10, 784)) < 0.2)
        return "random images", np.abs(centres[y] + 0.25 * rng.standard_normal((60_000, 784), np.float32)), y


def clock(call: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def loop_alone(learner: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Seconds that the card spends in the loop over examples, without kernel values and transfers."""
    cp, plain, spans = gpu.cupy(), gpu.Group, []

    class Timed(plain):  # type: ignore[misc, valid-type]
        def __init__(self, *given: Any):
            super().__init__(*given)
            loop = self.scan

            def timed(*arguments: Any, **named: Any) -> None:
                begin, end = cp.cuda.Event(), cp.cuda.Event()
                begin.record()
                loop(*arguments, **named)
                end.record()
                spans.append((begin, end))

            self.scan = timed

    gpu.Group = Timed  # type: ignore[misc]
    try:
        learner.learn(learner.init(), X, y, backend="gpu")
    finally:
        gpu.Group = plain  # type: ignore[misc]
    return sum(cp.cuda.get_elapsed_time(*span) for span in spans) / 1e3


def grid(labels: onkel.Labels) -> list[Any]:
    """256 configurations of sigma, lam and C."""
    return [
        onkel.silk(onkel.RBF(sigma), onkel.Structured(labels), eta=1.0, lam=lam, C=C, budget=512)
        for sigma in np.geomspace(2.0, 12.0, 8)
        for lam in np.geomspace(1e-5, 1e-2, 8)
        for C in (0.05, 0.2, 1.0, 5.0)
    ]


FEW = 5000  # examples for the comparison with the CPU


def report(arguments: argparse.Namespace) -> None:
    cp = gpu.cupy()
    name, X, y = images(arguments.data)
    card = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    labels = onkel.Labels.flat(10)
    print(f"{card}; {name}, {len(X)} x {X.shape[1]}, float32, ten classes")
    one = onkel.silk(onkel.RBF(5.0), onkel.Structured(labels), eta=1.0, lam=1e-4, budget=4096)
    one_learner(one, X, y)
    loops(one, labels, X, y)
    beside_the_cpu(one, X, y)
    many_learners(grid(labels), X, y)


def one_learner(one: Any, X: np.ndarray, y: np.ndarray) -> None:
    first, _ = clock(lambda: one.learn(one.init(), X[:2048], y[:2048], backend="gpu"), 1)
    print(f"first call, compiling included: {first:.2f} s")
    seconds, (_, trace) = clock(lambda: one.learn(one.init(), X, y, backend="gpu"), 5)
    rate = 2e-12 * len(X) * 4096 * X.shape[1] / seconds
    print(
        f"one learner, omega = 4096: {seconds:.3f} s (at most 0.5), {1e6 * seconds / len(X):.2f} us an example, "
        f"{rate:.1f} TFLOP/s counting 2 omega d; mistakes {trace.mistake.mean():.4f}, a loss in {np.mean(trace.loss > 0):.4f}"
    )


def loops(one: Any, labels: onkel.Labels, X: np.ndarray, y: np.ndarray) -> None:
    binary = np.where(y % 2 == 0, 1.0, -1.0)
    even = onkel.silk(onkel.RBF(5.0), onkel.Hinge(), eta=1.0, lam=1e-4, budget=4096)
    oldest = onkel.silk(onkel.RBF(5.0), onkel.Structured(labels), eta=1.0, lam=1e-4, budget=512, drop="oldest")
    for name, learner, targets in (
        ("ten classes", one, y),
        ("even or odd, hinge", even, binary),
        ("ten classes, the oldest go, omega = 512", oldest, y),
    ):
        loop_alone(learner, X[:2048], targets[:2048])
        print(f"the loop alone, {name}: {1e6 * loop_alone(learner, X, targets) / len(X):.2f} us an example")


def beside_the_cpu(one: Any, X: np.ndarray, y: np.ndarray) -> None:
    one.learn(one.init(), X[:300], y[:300])  # compiles
    cpu_seconds, (cpu_state, cpu) = clock(lambda: one.learn(one.init(), X[:FEW], y[:FEW]), 3)
    _, (gpu_state, few) = clock(lambda: one.learn(one.init(), X[:FEW], y[:FEW], backend="gpu"), 1)
    worst = np.abs(few.scores - cpu.scores).max() / np.abs(cpu.scores).max()
    print(
        f"its first {FEW} examples on one core: {cpu_seconds:.2f} s; scores differ by {worst:.1e} of their scale, "
        f"points by {np.setdiff1d(cpu_state.born, gpu_state.born).size}"
    )


def many_learners(many: list[Any], X: np.ndarray, y: np.ndarray) -> None:
    seconds, results = clock(lambda: onkel.learn_many(many, X, y, backend="gpu"), 3)
    errors = [trace.mistake.mean() for _, trace in results]
    print(
        f"{len(many)} learners, omega = 512: {seconds:.2f} s (at most 5), {1e9 * seconds / len(many) / len(X):.1f} ns an "
        f"example; mistakes from {min(errors):.4f} to {max(errors):.4f}"
    )
    worst, moved = 0.0, 0
    for i in range(0, len(many), 32):
        state, trace = many[i].learn(many[i].init(), X[:FEW], y[:FEW])
        few = onkel.learn_many(many[i : i + 2], X[:FEW], y[:FEW], backend="gpu")[0]
        worst = max(worst, np.abs(few[1].scores - trace.scores).max() / np.abs(trace.scores).max())
        moved += np.setdiff1d(state.born, few[0].born).size
    print(f"eight of them over {FEW} examples on the CPU: scores differ by at most {worst:.1e} of their scale, points by {moved}")
