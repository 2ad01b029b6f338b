"""How time and memory grow: with the budget and the features no faster than in proportion, with the stream not at all."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import onkel

from . import streams
from .bulk import ETA, LAM, Size, filled, learn_block
from .measure import Contender, Race, Result, Results
from .rows import AT_MOST, Row

OMEGAS = tuple(64 * 4**i for i in range(5))  # 64 .. 16384
WIDTHS = (16, 64, 256, 1024)
STREAM = 1_000_000


def learner_for(d: int, omega: int) -> Any:
    return onkel.silk(onkel.RBF(streams.width(d)), onkel.Hinge(), eta=ETA, lam=LAM, budget=omega)


def growth(size: Size) -> Iterator[Race]:
    yield along_budget(size, 64, tuple(omega // size.shrink or 1 for omega in OMEGAS))
    yield along_features(size, size.budget(512), WIDTHS)
    yield along_stream(STREAM // size.shrink)


def _timed(size: Size, d: int, omega: int, name: str) -> Contender:
    learner = learner_for(d, omega)
    n = size.examples(max(3e-7, 2.0 * d * omega / 4e10), least=256)
    make = partial(streams.signs, d)
    return Contender(name, partial(learn_block, learner, filled(learner, make, omega), *make(n)), n)


def along_budget(size: Size, d: int, omegas: tuple[int, ...]) -> Race:
    contenders = [_timed(size, d, omega, str(omega)) for omega in omegas]
    return Race(f"growth in omega, d = {d}", contenders, partial(exponent_row, f"growth in omega, d = {d}"))


def along_features(size: Size, omega: int, widths: tuple[int, ...]) -> Race:
    contenders = [_timed(size, d, omega, str(d)) for d in widths]
    return Race(f"growth in d, omega = {omega}", contenders, partial(exponent_row, f"growth in d, omega = {omega}"))


def exponent_row(title: str, results: Results) -> list[Row]:
    """The power with which time grows over the upper half of the sizes, by least squares; their names are the sizes."""
    upper = list(results.values())[len(results) // 2 :]
    power = np.polyfit(np.log([float(result.name) for result in upper]), np.log([result.median for result in upper]), 1)[0]
    return [Row(title, "proportional", float(power), "power", AT_MOST, 1.1, upper[-1].median)]


def along_stream(n: int, steps: int = 20) -> Race:
    """A round is a piece of one long stream; nbytes is noted after each, and counted by hand."""
    d, omega = 2, 100
    learner = learner_for(d, omega)
    X, y = streams.signs(d, n // steps)
    state = [learner.init()]
    sizes: list[float] = []

    def work(r: int) -> float:
        state[0], trace = learner.learn(state[0], X, y)
        if r:
            sizes.append(float(state[0].nbytes))
            if state[0].nbytes != counted(state[0]):
                raise AssertionError(f"nbytes says {state[0].nbytes}, the arrays hold {counted(state[0])}")
        return float(1.0 - trace.mistake.mean())

    title = f"growth in t up to {n:,}, d = {d}, omega = {omega}"
    contenders = [Contender("t", work, len(y))]
    return Race(title, contenders, lambda results: stream_rows(title, results["t"], sizes), steps, {"nbytes": sizes})


def counted(state: Any) -> int:
    """The bytes of every array in a state, its points included."""
    parts = [*vars(state).values(), *(vars(state.store).values() if state.store is not None else ())]
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


def stream_rows(title: str, result: Result, sizes: list[float]) -> list[Row]:
    quarter = len(result.seconds) // 4
    early, late = statistics.median(result.seconds[:quarter]), statistics.median(result.seconds[-quarter:])
    return [
        Row(title, "the first quarter", late / early, "x cost", AT_MOST, 1.15, late, early, result.quality),
        Row(f"memory, {title}", "the beginning", sizes[-1] / sizes[0], "x bytes", AT_MOST, 1.0),
    ]
