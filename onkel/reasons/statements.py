"""The theorems as rows of a certificate: which assumptions the run meets, what was measured, what was promised.

A statement is a function of a Run.  Where an assumption fails the bound is not computed and the row says which one it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import theory
from onkel.core.learner import Learner
from onkel.core.maths.losses import Hinge
from onkel.core.maths.schedules import InvSqrt
from onkel.core.maths.steps import Explicit, Implicit
from onkel.reasons.audit import Audit
from onkel.reasons.comparators import Comparator

Array = NDArray[np.float64]
Assumption = tuple[str, bool]


@dataclass
class Row:
    """One statement: ``holds`` is True or False where all ``assumptions`` are met and the statement speaks of this run, else None.

    ``path`` are (measured, bound) after each example, where that makes sense.
    """

    name: str
    says: str
    assumptions: list[Assumption]
    measured: float | None = None
    bound: float | None = None
    promise: bool = True
    path: tuple[Array, Array] | None = field(default=None, repr=False)

    @property
    def failed(self) -> list[str]:
        """The assumptions that this run does not meet."""
        return [text for text, met in self.assumptions if not met]

    @property
    def holds(self) -> bool | None:
        if self.failed or not self.promise or self.measured is None or self.bound is None:
            return None
        return bool(self.measured <= self.bound * (1 + 1e-9) + 1e-9)

    @property
    def ratio(self) -> float | None:
        """Which share of the bound the run reached."""
        if self.measured is None or self.bound is None:
            return None
        return self.measured / self.bound if self.bound else math.inf if self.measured > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        keys = ("name", "says", "holds", "measured", "bound", "ratio", "failed")
        return {key: getattr(self, key) for key in keys}


@dataclass
class Run:
    """What a statement may look at."""

    learner: Learner
    y: Array
    losses: Array
    mistakes: NDArray[np.bool_]
    scores: Array
    size: float
    audit: Audit | None
    find: Callable[[float], Comparator]
    separate: Callable[[], Comparator]
    drawn: float | None = None  # risk of the average hypothesis on held-out examples
    delta: float = 0.05

    @property
    def m(self) -> int:
        return len(self.y)

    @cached_property
    def eta(self) -> float:
        """The constant step, or the eta of eta/sqrt(t); nan otherwise."""
        eta = getattr(self.learner.step, "eta", None)
        return float(eta.eta) if isinstance(eta, InvSqrt) else math.nan if callable(eta) or eta is None else float(eta)

    @property
    def lam(self) -> float:
        return float(getattr(self.learner.step, "lam", 0.0))

    @property
    def C(self) -> float:
        return float(self.learner.step.C)

    @property
    def c(self) -> float:
        """How steep the weighted loss is at most."""
        return math.inf if self.audit is None else self.C * self.audit.loss.c

    # --- assumptions ----------------------------------------------------------------------------------------------------------

    def plain(self) -> Assumption:
        return "one score for each example, no offset, no nu", self.audit is not None

    def explicit(self) -> Assumption:
        return "explicit steps (NORMA)", isinstance(self.learner.step, Explicit)

    def implicit(self) -> Assumption:
        return "implicit steps (ILK)", isinstance(self.learner.step, Implicit)

    def constant(self) -> Assumption:
        eta = getattr(self.learner.step, "eta", None)
        return "a constant step", eta is not None and not callable(eta)

    def decreasing(self) -> Assumption:
        return "steps eta/sqrt(t)", isinstance(getattr(self.learner.step, "eta", None), InvSqrt)

    def forgets(self) -> Assumption:
        return "0 < eta lam < 1", bool(0 < self.eta * self.lam < 1)

    def keeps(self) -> Assumption:
        return "no decay (lam = 0)", self.lam == 0

    def lipschitz(self) -> Assumption:
        return "a loss of bounded slope", math.isfinite(self.c)

    def bounded(self) -> Assumption:
        return f"k(x, x) <= X^2 = {self.size**2:.4g} on this stream", math.isfinite(self.size) and self.size > 0

    def unlimited(self) -> Assumption:
        budget = self.learner.budget
        return "every term is kept", budget.size is None and budget.window is None

    def hinge(self) -> Assumption:
        return "the hinge loss", type(self.learner.loss) is Hinge

    # --- comparisons ----------------------------------------------------------------------------------------------------------

    def risks(self) -> Array | None:
        """R(f_t) at each example, regularised."""
        if self.audit is None or self.audit.norms is None:
            return None
        return self.C * self.losses + self.lam / 2 * self.audit.norms**2

    def margins(self) -> tuple[Array, float]:
        """y g(x) of a comparator that separates as well as it can, and its norm."""
        g = self.separate()
        return self.y * g.scores, g.norm


def regret(
    run: Run, name: str, says: str, assumptions: list[Assumption], bound: Callable[[], Callable[[int], float]], lam: float
) -> Row:
    """A statement about the sum of risks beside that of any g, here the best g found."""
    row = Row(name, says, assumptions)
    risks = run.risks()
    if row.failed or risks is None:
        if risks is None and not row.failed:
            row.assumptions.append(("a run whose norms can be followed", False))
        return row
    g = run.find(lam)
    assert run.audit is not None
    its = run.C * run.audit.loss.value(g.scores, run.y) + run.lam / 2 * g.norm**2
    promise = bound()
    measured, promised = np.cumsum(risks - its), np.array([promise(t) for t in range(1, run.m + 1)])
    row.measured, row.bound, row.path = float(measured[-1]), float(promised[-1]), (measured, promised)
    return row


def statements(run: Run) -> Iterator[Row]:
    """All rows, in the order of the papers."""
    yield truncation(run)
    yield from norma_hinge(run)
    common = [run.plain(), run.lipschitz(), run.bounded()]
    explicit = [*common, run.explicit(), run.decreasing(), run.forgets()]
    says = "regularised risk above that of the best g"
    lam = run.lam or 1.0

    def a_theorem(f: Callable[..., theory.Regret], **more: float) -> Callable[[], theory.Regret]:
        return lambda: f(run.eta, lam, X=run.size, **more)

    four = regret(run, "[K] Theorem 4", says, [*explicit, run.unlimited()], a_theorem(theory.norma_regret, c=run.c), lam)
    yield four
    yield average(run, "[K] Corollary 5", four)
    window = run.learner.budget.window
    theirs = isinstance(window, theory.Growing) and window == _own_growth(run, window.e)
    growth = ("the last s_t steps are kept, s_t from its own t0", theirs)
    yield regret(run, "[K] Theorem 6", says, [*explicit, growth], a_theorem(theory.truncated_norma_regret, c=run.c), lam)
    yield from conference(run)
    implicit = [*common, run.implicit(), run.decreasing(), ("lam > 0", run.lam > 0)]
    three = regret(run, "[C] Theorem 3, ILK", says, [*implicit, run.unlimited()], a_theorem(theory.ilk_regret, C=run.c), lam)
    yield three
    yield average(run, "[C] 3.2, average hypothesis", three)
    budget = run.learner.budget
    smallest = ("the smallest coefficient goes", budget.size is not None and budget.drop == "smallest")
    silk = regret(run, "[C] Theorem 3, SILK as printed", says, [*implicit, smallest], a_theorem(theory.silk_regret, C=run.c), lam)
    silk.promise = False  # docs/theory.md: a budget of one point breaks it on a long stream
    yield silk
    if run.audit is not None and run.audit.drops is not None:
        drops = run.audit.drops
        bound = lambda: theory.silk_regret_as_run(run.eta, lam, drops, C=run.c, X=run.size)  # noqa: E731
        yield regret(run, "[C] Theorem 3, SILK as run", says, [*implicit, smallest], bound, lam)
    yield _cheng(run)
    yield from perceptron(run)


def _own_growth(run: Run, e: float) -> Any:
    try:
        return theory.growing(run.eta, run.lam, e)
    except ValueError:
        return None


def truncation(run: Run) -> Row:
    """[K] Proposition 1."""
    window = run.learner.budget.window
    fixed = ("a window of a fixed number of steps", isinstance(window, int))
    conditions = [run.plain(), run.lipschitz(), run.bounded(), run.explicit(), run.constant(), run.forgets(), fixed]
    row = Row("[K] Proposition 1", "norm of what the window leaves out (measured: the sum of what was dropped)", conditions)
    if not row.failed and run.audit is not None and not math.isnan(run.audit.dropped):
        row.measured = run.audit.dropped
        row.bound = theory.truncation_error(int(window), eta=run.eta, lam=run.lam, C=run.c, X=run.size, t=run.m)
    return row


def norma_hinge(run: Run) -> Iterator[Row]:
    """[K] Theorems 2 and 3, for the recommended parameters and for those of the run."""
    conditions = [run.plain(), run.hinge(), run.bounded(), run.explicit(), run.constant(), run.unlimited(), ("C = 1", run.c == 1.0)]
    step = run.learner.step
    if not all(met for _, met in conditions[:3]):
        yield Row("[K] Theorem 2", "margin errors", conditions)
        yield Row("[K] Theorem 3", "mistakes", conditions)
        return
    rho = float(run.learner.loss.rho)
    here = (run.eta, run.lam, rho)
    errors = int((run.y * run.scores <= rho).sum())
    two, three, as_run = recommended(run, rho)
    for name, says, found, measured in (
        ("[K] Theorem 2", "margin errors", two, errors),
        ("[K] Theorem 3", "mistakes", three, int(run.mistakes.sum())),
    ):
        row = Row(name, says, list(conditions))
        if found is None:
            row.assumptions.append(("a comparator that separates some of the stream", False))
        else:
            same = isinstance(step, Explicit) and np.allclose(here, (found.eta, found.lam, found.rho), rtol=1e-6, atol=1e-12)
            wanted = f"eta = {found.eta:.4g}, lam = {found.lam:.4g}, rho = {found.rho:.4g}, as recommended for this stream"
            row.assumptions.append((wanted, bool(same)))
            if not row.failed:
                row.measured, row.bound = measured, found.bound
        yield row
    row = Row("[K] Theorem 2, as run", "margin errors", list(conditions))
    if not row.failed:
        row.assumptions.append(("a step that is small beside the margin", math.isfinite(as_run)))
        row.measured, row.bound = errors, as_run if math.isfinite(as_run) else None
    yield row


def recommended(run: Run, rho: float) -> tuple[theory.Settings | None, theory.Settings | None, float]:
    """The settings of [K] Theorems 2 and 3 for this stream with their bounds, and Theorem 2's bound for the settings of the run."""
    z, norm = run.margins()
    if norm <= 0.0:
        return None, None, math.inf
    order = np.sort(z)
    sums = np.concatenate([[0.0], np.cumsum(order)])

    def hinge(mu: float) -> float:
        below = int(np.searchsorted(order, mu))
        return max(0.0, mu * below - float(sums[below]))

    two = three = None
    as_run = math.inf
    largest = float(order[-1])
    for share in np.linspace(0.02, 1.5, 400) if largest > 0 else ():  # Theorem 3 knows no rho: g is scaled so that mu = 1
        factor = 1.0 / (share * largest)
        found = theory.norma_mistakes(1.0, B=factor * norm, X=run.size, K=factor * hinge(1.0 / factor))
        three = found if three is None or found.bound < three.bound else three
    usable = isinstance(run.learner.step, Explicit) and math.isfinite(run.eta) and run.eta * run.lam < 1
    for scale in np.geomspace(0.1, 100.0, 31) * max(rho, 1e-3):
        for share in np.linspace(0.02, 1.5, 38):
            # scale g so that the margin mu, a share of its largest, lies where it is wanted
            mu = rho + scale
            factor = mu / (share * max(float(order[-1]), 1e-300))
            if factor <= 0 or float(order[-1]) <= 0:
                continue
            K, B = factor * hinge(mu / factor), factor * norm
            found = theory.norma_margin_errors(mu, rho, B=B, X=run.size, K=K)
            two = found if two is None or found.bound < two.bound else two
            if usable:
                bound = theory.norma_margin_errors_as_run(mu, rho, eta=run.eta, lam=run.lam, B=B, X=run.size, K=K, m=run.m)
                as_run = min(as_run, bound)
    return two, three, as_run


def conference(run: Run) -> Iterator[Row]:
    """The conference form of [K]: a fixed rate, a decreasing rate, and independent examples."""
    common = [run.plain(), run.lipschitz(), run.bounded(), run.explicit(), run.keeps(), run.unlimited()]
    says = "loss above that of the best g"

    def fixed() -> Callable[[int], float]:
        B = run.find(lam).norm
        return lambda t: theory.fixed_rate_regret(run.eta, t, B=B, c=run.c, X=run.size)

    def falling() -> Callable[[int], float]:
        assert run.audit is not None
        assert run.audit.norms is not None
        B, largest = run.find(lam).norm, np.maximum.accumulate(run.audit.norms)
        return lambda t: theory.decreasing_rate_regret(run.eta, t, B=B, largest=float(largest[t - 1]), c=run.c, X=run.size)

    lam = 1.0 / (run.eta * run.m) if math.isfinite(run.eta) else 1.0  # the g that makes the promise tightest
    one = regret(run, "NORMA 2001, Theorem 1", says, [*common, run.constant()], fixed, lam)
    yield one
    lam = lam if not run.decreasing()[1] else 1.0 / (run.eta * math.sqrt(run.m))
    two = regret(run, "NORMA 2001, Theorem 2", says, [*common, run.decreasing()], falling, lam)
    yield two
    row = Row("NORMA 2001, Theorem 3", "expected risk of the average hypothesis", [*two.assumptions], promise=False)
    if two.bound is not None:
        row.bound = theory.average_risk_bound(run.find(lam).risk - lam / 2 * run.find(lam).norm ** 2, two.bound, run.m)
    yield row


def average(run: Run, name: str, row: Row) -> Row:
    """What a bound on the sum of risks says about new examples: of the average hypothesis, with probability 1 - delta."""
    on = Row(name, f"expected risk of the average hypothesis, with probability {1 - run.delta:g}", list(row.assumptions))
    on.promise = run.drawn is not None
    if row.bound is not None and run.audit is not None:
        U = run.c * run.size / run.lam
        zero = float(np.max(run.audit.loss.value(np.zeros(run.m), run.y)))
        largest = run.C * zero + run.c * U * run.size + run.lam / 2 * U**2
        whole = theory.Regret(row.bound / math.sqrt(run.m), 0.0)
        on.bound = theory.expected_risk_bound(run.find(run.lam).risk, whole, run.m, largest=largest, delta=run.delta)
        on.measured = run.drawn
    return on


def _cheng(run: Run) -> Row:
    """[C] Theorem 2: printed, but no guarantee."""
    conditions = [run.plain(), run.hinge(), run.bounded(), run.implicit(), run.unlimited()]
    row = Row("[C] Theorem 2", "mistakes (not a guarantee)", conditions, promise=False)
    if not row.failed:
        three = recommended(run, float(run.learner.loss.rho))[1]
        row.measured, row.bound = int(run.mistakes.sum()), None if three is None else three.bound
    return row


def perceptron(run: Run) -> Iterator[Row]:
    """[V] Theorems 1 and 2."""
    zero = ("rho = 0", run.hinge()[1] and run.learner.loss.rho == 0)
    conditions = [run.plain(), run.hinge(), zero, run.bounded(), run.explicit(), run.constant(), run.keeps(), run.unlimited()]
    one = Row("[V] Theorem 1", "mistakes of the perceptron", conditions)
    two = Row("[V] Theorem 2", "risk of the voted perceptron, an estimate", list(conditions), promise=False)
    if not one.failed:
        z, norm = run.margins()
        if norm > 0:
            margins = z / norm
            grid = np.linspace(0.02, 1.5, 75) * max(float(margins.max()), 1e-300)
            bounds = [
                theory.perceptron_mistakes(run.size, float(np.linalg.norm(np.maximum(0.0, g - margins))), float(g)) for g in grid
            ]
            one.measured, one.bound = int(run.mistakes.sum()), min(bounds)
            two.bound = theory.voted_perceptron_risk(run.m - 1, min(bounds)) if run.m > 1 else None
    yield one
    yield two
