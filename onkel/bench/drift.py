"""What detectors of drift do for a model: delay, false alarms and the error after the drift, on streams whose drift is known.

Eight streams of 4,000 examples, made from a seed or of scikit-learn's digits; half way something changes, abruptly, slowly, in part
or, as a check, not at all.  Beside River's detectors stands the model without one, and each action stands for itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import onkel

ROWS, AFTER = 4000, 1000  # examples of a stream, and how many behind the change the error is taken over
ACTIONS = ("forget", "shrink", "restart")


class Stream(NamedTuple):
    """A stream, where it changes (None: nowhere), and whether it has classes or real targets."""

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    change: int | None


def streams(n: int = ROWS, seed: int = 0) -> Iterator[Stream]:
    """The streams of the table.

    >>> [stream.name for stream in streams(100)][:3]
    ['classes swap', 'classes swap slowly', 'one class of four moves']
    """
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    X, half = rng.normal(size=(n, 2)), np.arange(n) >= n // 2
    xor = X[:, 0] * X[:, 1] > 0
    noisy = xor ^ (rng.random(n) < 0.1)
    yield Stream("classes swap", X, np.where(half, ~noisy, noisy), n // 2)
    turned = rng.random(n) < np.clip((np.arange(n) - n // 2) / (n // 8), 0.0, 1.0)
    yield Stream("classes swap slowly", X, np.where(turned, ~noisy, noisy), n // 2)
    code = rng.integers(0, 4, n)
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [3.0, 3.0]])[code]
    centres[half & (code == 0)] = 3.0, 1.5
    yield Stream("one class of four moves", centres + 0.7 * rng.normal(size=(n, 2)), code, n // 2)
    digits = load_digits()
    order = np.concatenate([rng.permutation(len(digits.data)) for _ in range(n // len(digits.data) + 1)])[:n]
    names = digits.target[order]
    yield Stream("digits, names exchanged", digits.data[order], np.where(half, (names + 3) % 10, names), n // 2)
    yield Stream("classes, no change", X, noisy, None)
    line = X[:, 0] + 0.05 * rng.normal(size=n)
    yield Stream("x becomes -3 x", X, np.where(half, -3.0 * line, line), n // 2)
    wave = np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=n)
    yield Stream("a wave shifts", X, np.where(half, np.cos(3.0 * X[:, 0]) + wave - np.sin(3.0 * X[:, 0]), wave), n // 2)
    yield Stream("a wave, no change", X, wave, None)


def detectors() -> dict[str, Callable[[], Any]]:
    """River's, with their own defaults; those for mistakes alone are left to classes."""
    from river import drift

    return {
        "ADWIN": drift.ADWIN,
        "KSWIN": lambda: drift.KSWIN(seed=0),
        "PageHinkley": lambda: drift.PageHinkley(mode="up"),
        "DDM": drift.binary.DDM,
        "HDDMA": drift.binary.HDDMA,
    }


class Outcome(NamedTuple):
    """Of one run: examples from the change to the first alarm, alarms without a change, mean error behind the change."""

    delay: float
    false: int
    error: float


def outcome(stream: Stream, detector: Any, action: str) -> Outcome:
    """Learn the stream once, each example predicted before it is learned."""
    classes = stream.y.dtype.kind in "bi"
    options: dict[str, Any] = {"budget": 256, "drift": detector, "on_drift": action}
    model = onkel.KernelClassifier(**options) if classes else onkel.KernelRegressor(**options)
    trace = model.partial_fit(stream.X, stream.y).trace_
    errors = trace.mistake if classes else np.abs(stream.y - trace.scores)
    spoke, n = np.flatnonzero(trace.drift), len(stream.y)
    change = n if stream.change is None else stream.change
    late = spoke[spoke >= change]
    error = errors[n // 2 : n // 2 + max(AFTER * n // ROWS, 1)].mean()
    return Outcome(float(late[0] - change) if len(late) else np.nan, int((spoke < change).sum()), float(error))


def table(n: int = ROWS) -> list[str]:
    """Lines: stream and detector, delay and false alarms, the error after the change with each action."""
    lines = [f"{'stream':<26}{'detector':<13}{'delay':>6}{'false':>6}" + "".join(f"{action:>10}" for action in ACTIONS)]
    for stream in streams(n):
        alone = outcome(stream, None, "forget").error
        lines.append(f"{stream.name:<26}{'none':<13}{'-':>6}{'-':>6}" + f"{alone:>10.4f}" * len(ACTIONS))
        for name, make in detectors().items():
            if stream.y.dtype.kind == "f" and name in ("DDM", "HDDMA"):
                continue
            found = [outcome(stream, make(), action) for action in ACTIONS]
            delay = "-" if np.isnan(found[0].delay) else f"{found[0].delay:.0f}"
            marks = "".join(f"{one.error:>9.4f}{_mark(one.error / alone)}" for one in found)
            lines.append(f"{stream.name:<26}{name:<13}{delay:>6}{found[0].false:>6}{marks}")
    return lines


def _mark(ratio: float) -> str:
    return "+" if ratio < 0.98 else "-" if ratio > 1.02 else " "


def report(arguments: argparse.Namespace) -> int:
    """Print the table."""
    print("Error over the 1,000 examples after the change; + better, - worse by more than 2 % than without a detector.")
    print("Delay and false alarms are those with the action forget.")
    for line in table(ROWS // 4 if arguments.quick else ROWS):
        print(line)
    return 0
