"""Certificates: a run held against what was proved about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import theory
from onkel.core.learner import Learner, Trace
from onkel.core.maths.losses import Hinge
from onkel.core.state import State
from onkel.reasons.audit import Audit, audit, average
from onkel.reasons.comparators import Comparator, batch, zero
from onkel.reasons.convex import Convex, convex
from onkel.reasons.statements import Row, Run, recommended, statements

Array = NDArray[np.float64]


@dataclass(eq=False)
class Certificate:
    """What a run was promised and what it did: one row for each statement, those that speak of this run first.

    rows          name, says, assumptions, failed, holds, measured, bound, ratio
    recommended   eta, lam and rho of [K] Theorems 2 and 3 for this stream, with the bounds that they would promise
    budget_error  |f(x) - what f would be with the terms it dropped| is at most this times sqrt(k(x, x)); nan where untold
    norm          |f| at the end;  cumulative_loss, mistakes: of the run
    held_out      mean loss of the average and of the last hypothesis on the held-out examples
    """

    rows: list[Row]
    examples: int
    cumulative_loss: float
    mistakes: int
    norm: float
    budget_error: float
    recommended: dict[str, theory.Settings]
    comparators: list[Comparator]
    held_out: dict[str, float]
    state: State
    trace: Trace

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r}; the rows are {', '.join(row.name for row in self.rows)}")

    def __str__(self) -> str:
        lines = [f"{self.examples} examples, cumulative loss {self.cumulative_loss:.5g}, {self.mistakes} mistakes."]
        for g in self.comparators:
            lines.append(f"Compared with g of lam = {g.lam:.3g}: {g}.")
        width = max(len(row.name) for row in self.rows)
        lines += ["", f"{'statement':{width}}   measured      bound   share"]
        lines += [_line(row, width) for row in self.rows if not row.failed]
        missing = [f"  {row.name}: needs {', '.join(row.failed)}" for row in self.rows if row.failed]
        if missing:
            lines += ["", "These do not speak of this run:", *missing]
        for name, s in self.recommended.items():
            lines.append(f"{name} recommends eta = {s.eta:.4g}, lam = {s.lam:.4g}, rho = {s.rho:.4g}: then at most {s.bound:.4g}.")
        if self.budget_error > 0:
            lines.append(f"The budget changed no prediction by more than {self.budget_error:.4g} sqrt(k(x, x)).")
        if self.held_out:
            words = ", ".join(f"{name} {value:.4g}" for name, value in self.held_out.items())
            lines.append(f"Mean loss on held-out examples: {words}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        return {
            "examples": self.examples,
            "cumulative_loss": self.cumulative_loss,
            "mistakes": self.mistakes,
            "norm": self.norm,
            "budget_error": self.budget_error,
            "rows": [row.to_dict() for row in self.rows],
            "recommended": {name: s._asdict() for name, s in self.recommended.items()},
            "comparators": [{key: v for key, v in g._asdict().items() if key != "scores"} for g in self.comparators],
            "held_out": dict(self.held_out),
        }

    def plot(self, theme: str = "light") -> Any:
        """A figure: regret and bound over t, one panel for each statement that has them."""
        from onkel import plots

        shown = [row for row in self.rows if row.path is not None] or [row for row in self.rows if row.bound is not None][:1]
        with plots.style(theme):
            figure, axes = plots.panels(max(len(shown), 1), width=5.4, height=4.0)
            for row, axis in zip(shown, axes):
                measured, bound = row.path or (np.full(self.examples, row.measured), np.full(self.examples, row.bound))
                t = np.arange(1, len(measured) + 1)
                axis.plot(t, bound, "--", color=plots.colour("grey", theme), label="bound")
                axis.plot(t, measured, color=plots.colour("blue", theme), label="measured")
                axis.set(title=row.name, xlabel="examples", ylabel=row.says.split(",")[0])
                plots.name_lines(axis)
        return figure


def _line(row: Row, width: int) -> str:
    measured = "        -" if row.measured is None else f"{row.measured:9.4g}"
    bound = "        -" if row.bound is None else f"{row.bound:9.4g}"
    share = "     " if row.ratio is None else f"{100 * row.ratio:4.0f}%" if row.ratio >= 0 else "  <0%"
    verdict = {True: "holds", False: "BROKEN", None: "reported, no promise"}[row.holds]
    return f"{row.name:{width}}  {measured}  {bound}   {share}   {verdict}: {row.says}"


def certify(
    learner: Learner,
    X: Any,
    y: Any = None,
    *,
    comparator: str | Comparator = "batch",
    held_out: tuple[Any, Any] | None = None,
    delta: float = 0.05,
) -> Certificate:
    """Run the learner over a stream and hold the run against every statement of the papers.

    ``comparator`` "batch" finds the minimiser of the regularised risk, "zero" compares with g = 0 (a theorem about every g is a
    theorem about that one, too, and costs nothing), or give a Comparator of your own.  ``held_out`` are (X, y) of the same
    distribution, for what is promised of the average hypothesis with probability 1 - delta.

    >>> import numpy as np, onkel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2)); y = np.sign(X[:, 0] * X[:, 1])
    >>> learner = onkel.norma(onkel.RBF(1.0), onkel.Hinge(), eta=onkel.InvSqrt(1.0), lam=0.1)
    >>> certificate = certify(learner, X, y)
    >>> row = certificate.rows[0]
    >>> row.name, row.holds, bool(row.measured < row.bound)
    ('[K] Theorem 4', True, True)
    """
    if isinstance(comparator, str) and comparator not in ("batch", "zero"):
        raise ValueError(f"comparator must be 'batch', 'zero' or a Comparator; got {comparator!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1; got {delta!r}")
    rows = X if hasattr(X, "shape") and X.ndim == 2 else list(X) if not isinstance(X, list) else X
    start = learner.init()
    block = learner.read(rows, start)
    targets = learner.targets(y, len(block))
    state, trace = learner.learn(start, rows, y)
    plain = block.plain()
    own = np.asarray(learner.kernel.diagonal(block), np.float64)
    followed = audit(learner, state, trace.scores, trace.eta, plain, targets, own) if learner.outputs == 1 else None
    find, separate, found = _finder(learner, followed, plain, targets, comparator)
    size = float(np.sqrt(own.max()))
    run = Run(learner, targets, trace.loss, trace.mistake, trace.scores, size, followed, find, separate, delta=delta)
    tried = {} if held_out is None else _drawn(learner, state, followed, run, plain, held_out)
    made = list(statements(run))
    told: dict[str, theory.Settings] = {}
    if followed is not None and run.hinge()[1]:
        two, three, _ = recommended(run, float(learner.loss.rho))
        told = {name: s for name, s in (("[K] Theorem 2", two), ("[K] Theorem 3", three)) if s is not None}
    made.sort(key=lambda row: (row.holds is None, bool(row.failed)))
    return Certificate(
        rows=made,
        examples=len(block),
        cumulative_loss=float(trace.loss.sum()),
        mistakes=int(trace.mistake.sum()),
        norm=math.nan if followed is None else followed.last,
        budget_error=_budget_error(learner, state, followed),
        recommended=told,
        comparators=list(found.values()),
        held_out=tried,
        state=state,
        trace=trace,
    )


def _finder(
    learner: Learner, followed: Audit | None, X: Any, y: Array, comparator: str | Comparator
) -> tuple[Callable[[float], Comparator], Callable[[], Comparator], dict[Any, Comparator]]:
    """lam -> the comparator of the run's own loss, a comparator with the hinge at margin 1, and what they have found so far."""
    found: dict[Any, Comparator] = {}

    def solved(key: Any, loss: Convex, lam: float, C: float) -> Comparator:
        if isinstance(comparator, Comparator):
            return comparator
        if key not in found:
            found[key] = zero(loss, y, C, lam) if comparator == "zero" else batch(learner.kernel, loss, X, y, lam=lam, C=C)
        return found[key]

    def find(lam: float) -> Comparator:
        assert followed is not None
        return solved(lam, followed.loss, lam, float(learner.step.C))

    def separate() -> Comparator:
        margin = convex(Hinge(1.0))
        assert margin is not None
        lam = float(getattr(learner.step, "lam", 0.0)) or 1.0 / len(y)
        same = type(learner.loss) is Hinge and learner.loss.rho == 1.0 and learner.step.C == 1.0
        return solved(lam if same else "separates", margin, lam, 1.0)

    return find, separate, found


def _drawn(learner: Learner, state: State, followed: Audit | None, run: Run, X: Any, held_out: tuple[Any, Any]) -> dict[str, float]:
    """Mean losses on held-out examples; the run learns the risk of its average hypothesis."""
    fresh, targets = held_out[0], learner.targets(held_out[1], len(held_out[0]))
    if followed is None or learner.budget.size is not None or learner.budget.window is not None:
        return {}
    weights = average(followed)
    used = np.flatnonzero(weights)
    points = [X[i] for i in used] if isinstance(X, list) else X[used]
    mean = np.asarray(learner.kernel(fresh, points), np.float64) @ weights[used]
    loss = followed.loss.value
    tried = {"average": float(loss(mean, targets).mean()), "last": float(loss(learner.score(state, fresh), targets).mean())}
    assert followed.norms is not None
    # the square is convex: the average's is at most the average of the squares
    run.drawn = run.C * tried["average"] + run.lam / 2 * float(np.mean(followed.norms**2))
    return tried


def _budget_error(learner: Learner, state: State, followed: Audit | None) -> float:
    """The core's ledger where it keeps one, else what the audit found."""
    ledger = getattr(learner, "budget_error", None)
    if ledger is not None:
        return float(ledger(state))
    return math.nan if followed is None else followed.dropped
