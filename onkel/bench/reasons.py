"""Reasons measured: how fast scores are explained and runs certified, how tight the bounds are on moving streams, and how soon the
distance that a model moves tells of a drift."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np

import onkel
from onkel import theory
from onkel.reasons.change import movement
from onkel.reasons.comparators import paths
from onkel.reasons.convex import convex
from onkel.streams import moving_mixtures

from .measure import one_thread

WIDE = 20  # features of the rows that are explained


def report(arguments: argparse.Namespace) -> int:
    """Print the tables; with --out DIR draw the pictures of docs/explain.md and docs/theory.md there instead."""
    if arguments.out is not None:
        from .reasons_pictures import draw

        print("\n".join(map(str, draw(arguments.out))))
        return 0
    with one_thread():
        for lines in (explaining, certifying, moving_targets, drift):
            for line in lines(arguments.quick):
                print(line, flush=True)
            print()
    return 0


def clock(f: Callable[[], Any], rounds: int) -> float:
    """The least CPU time of a call out of some rounds; of each round the mean over as many calls as take a millisecond."""
    f()
    start = time.process_time()
    f()
    calls = max(1, int(1e-3 / max(time.process_time() - start, 1e-6)))
    found = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            f()
        found.append((time.process_time() - start) / calls)
    return min(found)


def stream(m: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    X = np.random.default_rng(seed).normal(size=(m, d))
    return X, np.sign(X[:, 0] * X[:, 1])


def explaining(quick: bool) -> list[str]:
    rounds = 3 if quick else 9
    X, y = stream(3000, WIDE)
    lines = [f"Explaining a row of {WIDE} features, RBF kernel, CPU time:"]
    for points, most, shapley_most in ((128, None, None), (512, 50e-6, 5e-3)):
        learner = onkel.silk(onkel.RBF(3.0), onkel.Hinge(), budget=points)
        state, _ = learner.learn(learner.init(), X, y)
        terms = clock(lambda: onkel.explain(learner, state, X[0]).terms, rounds)  # noqa: B023 - called at once
        both = clock(lambda: onkel.explain(learner, state, X[0]).shapley, rounds)  # noqa: B023
        targets = "" if most is None or shapley_most is None else f" (targets {most * 1e6:.0f} us, {shapley_most * 1e3:.0f} ms)"
        lines.append(f"  {points} points: {terms * 1e6:.0f} us, with exact Shapley values {both * 1e3:.2f} ms{targets}")
    learner = onkel.silk(onkel.RBF(2.0), onkel.Hinge(), budget=128)
    state, _ = learner.learn(learner.init(), X[:, :12], y)
    why = onkel.explain(learner, state, X[0, :12])
    start = time.process_time()
    values = subsets(learner.kernel, why.coef, why.points, why.x)
    took = time.process_time() - start
    ours = clock(lambda: onkel.explain(learner, state, X[0, :12]).shapley, rounds)
    lines.append(
        f"  12 features, 128 points, against all 4096 subsets: largest difference {np.abs(values - why.shapley).max():.1e}, "
        f"{took / ours:.0f} times faster"
    )
    return lines


def subsets(kernel: Any, coef: Any, points: Any, x: Any) -> Any:
    """Shapley values of an RBF expansion by definition, absent features left out."""
    d = len(x)
    squares = (x - points) ** 2 / (2 * kernel.sigma**2)
    worth = {S: float(np.exp(-squares[:, S].sum(axis=1)) @ coef) for r in range(d + 1) for S in combinations(range(d), r)}
    values = np.zeros(d)
    for S, value in worth.items():
        for j in set(range(d)) - set(S):
            share = factorial(len(S)) * factorial(d - len(S) - 1) / factorial(d)
            values[j] += share * (worth[tuple(sorted((*S, j)))] - value)
    return values


def certifying(quick: bool) -> list[str]:
    m = 10_000 if quick else 60_000
    X, y = stream(m, WIDE)
    learner = onkel.silk(onkel.RBF(3.0), onkel.Hinge(), eta=onkel.InvSqrt(1.0), lam=0.001, budget=512)
    learned = clock(lambda: learner.learn(learner.init(), X, y), 3)
    certified = clock(lambda: onkel.certify(learner, X, y, comparator="zero"), 3)
    return [
        f"Certifying {m} examples at 512 points, comparator aside: {certified:.2f} s, {certified / learned:.1f} times the learning "
        "(target: under 5)"
    ]


def moving_targets(quick: bool) -> list[str]:
    """[K] Theorem 3 on streams like those of [K] Figure 2: the best bound over piecewise comparators, and NORMA's mistakes."""
    m = 1500 if quick else 3000
    lines = [f"[K] Theorem 3 on {m} examples like those of [K] Figure 2, the best piecewise comparators found:"]
    best, share = {}, {}
    for kind, every, change in (("drifting", 10, 0.2), ("switching", m // 3, 1.0)):
        X, y = moving_mixtures(m, every=every, change=change, gaussians=8, width=0.4, seed=0)
        kernel, loss = onkel.RBF(0.6), convex(onkel.Hinge(1.0))
        assert loss is not None
        found = paths(kernel, loss, X, y, pieces=(1, 3, 10, 30), lams=(0.1, 0.01))
        path = min(found, key=lambda p: p.bound)
        recommended = theory.norma_mistakes(path.mu, B=path.B, X=1.0, K=path.K, D1=path.D1, D2=path.D2, m=m)
        as_told = onkel.norma(kernel, onkel.Hinge(recommended.rho), eta=recommended.eta, lam=recommended.lam)
        tuned = onkel.norma(kernel, onkel.Hinge(1.0), eta=0.3, lam=0.03)
        mistakes = [int(one.learn(one.init(), X, y)[1].mistake.sum()) for one in (as_told, tuned, onkel.perceptron(kernel))]
        best[kind], share[kind] = path.bound, mistakes[1] / m
        for p in found:
            way = f"D1 {p.D1:7.1f}  D2 {p.D2:9.2f}  loss {p.K:7.1f}  bound {p.bound:8.0f}"
            lines.append(f"  {kind:9}  {p.pieces:3} pieces, {p.moves:6}  {way}")
        lines.append(
            f"  {kind:9}  mistakes with the recommended eta = {recommended.eta:.3g}, lam = {recommended.lam:.2g}, "
            f"rho = {recommended.rho:.2g}: {mistakes[0]}; with eta = 0.3, lam = 0.03: {mistakes[1]}; "
            f"of the perceptron: {mistakes[2]}"
        )
    better = "holds" if best["drifting"] < best["switching"] else "does not hold"
    vacuous = " (both bounds are above the number of examples: neither says anything)" if min(best.values()) > m else ""
    lines.append(f"  verdict: the bound is better for drifting than for switching: {better}{vacuous}")
    lines.append(
        f"  verdict: NORMA does well on both: {100 * share['drifting']:.0f} % and {100 * share['switching']:.0f} % mistakes"
    )
    return lines


def drift(quick: bool) -> list[str]:
    """The distance that a model moves as a drift signal, beside ADWIN on its mistakes: delay at equal false alarms."""
    try:
        from river.drift import ADWIN
    except ImportError:
        return ["Drift: left out, River is not installed"]
    runs, m, turn = (4, 2000, 1500) if quick else (20, 3000, 2000)
    every = 50
    false: dict[str, list[float]] = {}
    delays: dict[str, list[float]] = {}
    signals, mistakes = [], []
    learner = onkel.silk(onkel.RBF(0.6), onkel.Hinge(), lam=0.003, budget=100)
    for seed in range(runs):
        X, y = moving_mixtures(m, every=turn, change=1.0, gaussians=4, width=0.4, seed=seed)
        signals.append(movement(learner, X, y, every=every))
        mistakes.append(learner.learn(learner.init(), X, y)[1].mistake)
    for delta in (0.2, 0.02, 0.002):
        alarms = []
        for row in mistakes:
            detector, heard = ADWIN(delta=delta), []
            for t, wrong in enumerate(row, 1):
                detector.update(int(wrong))
                if detector.drift_detected:
                    heard.append(t)
            alarms.append(heard)
        tally(f"ADWIN, delta = {delta:g}", alarms, turn, false, delays)
    for high in (4.0, 6.0, 8.0):
        tally(f"moved {high:g} deviations", [rises(t, moved, high) for t, moved in signals], turn, false, delays)
    lines = [f"Drift after {turn} of {m} examples, {runs} streams; false alarms before it per stream, median delay after it:"]
    for name, values in false.items():
        told = [d for d in delays[name] if np.isfinite(d)]
        missed = len(delays[name]) - len(told)
        lines.append(f"  {name:22} {np.mean(values):5.2f}   {np.median(told) if told else np.nan:6.0f}   missed {missed}")
    return lines


def rises(times: Any, moved: Any, high: float, memory: int = 20) -> list[int]:
    """Where the signal lies so many mean deviations above the median of the last ones."""
    heard = []
    for i in range(10, len(moved)):
        before = moved[max(0, i - memory) : i]
        middle = np.median(before)
        if moved[i] > middle + high * max(float(np.mean(np.abs(before - middle))), 1e-12):
            heard.append(int(times[i]))
    return heard


def tally(name: str, alarms: list[list[int]], turn: int, false: dict[str, list[float]], delays: dict[str, list[float]]) -> None:
    false[name] = [float(sum(turn // 4 < t <= turn for t in heard)) for heard in alarms]  # the start is everybody's to learn in
    delays[name] = [min((t - turn for t in heard if t > turn), default=np.inf) for heard in alarms]
