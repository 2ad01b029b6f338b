"""The papers' bounds as functions, so that a run can be held against what was proved about it.

Names used throughout: `k(x, x) <= X^2`; a loss is Lipschitz with constant `c` in the score; a comparison
sequence g_1 ... g_m has `||g_t|| <= B`, travels `D1 = sum ||g_t - g_{t+1}||` and `D2 = sum ||g_t - g_{t+1}||^2`, and
suffers the cumulative hinge loss `K = sum max(0, mu - y_t g_t(x_t))` at its margin mu. With several labels X^2 bounds
`k((x,y),(x,y)) - 2 k((x,y),(x,z)) + k((x,z),(x,z))`, which is `2 k(x, x)` for unrelated ones.

References: [K], [C] in docs/references.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.maths.value import Value


def mistake_bound(K: float, S: float, mu: float) -> float:
    """`Phi(K, S, mu) = K/mu + 2 S/mu^2 + 2 sqrt(S/mu^2) sqrt(K/mu + S/mu^2)`, the form of all mistake bounds here.

    A stationary separable stream (K = 0, `S = X^2 B^2/4`) gives the perceptron's `(X B/mu)^2`:

    >>> mistake_bound(K=0, S=movement(X=2, B=3), mu=1)
    36.0
    """
    loss, size = K / mu, S / mu**2
    return loss + 2 * size + 2 * math.sqrt(size) * math.sqrt(loss + size)


def movement(X: float, B: float, D1: float = 0.0, D2: float = 0.0, m: int = 0) -> float:
    """`S = X^2/4 (B^2 + B (sqrt(m D2) + D1))`: how far the comparison sequence lies from 0, and how far it travels.

    [K] (31), where it is called C; [C] Theorem 2.
    """
    return X**2 / 4 * (B**2 + B * (math.sqrt(m * D2) + D1))


def h(x: float, K: float, S: float) -> float:
    """`h = sqrt(S/K (x + S/K)) - S/K`, and `x/2` for K = 0 ([K] (30)).

    Written as `x / (1 + sqrt(1 + x K/S))`, the same number without the cancellation that ruins the printed form when K
    is small:

    >>> h(1.0, 0.0, 5.0), h(1.0, 1e-12, 5.0) > 0.49999999
    (0.5, True)
    """
    return x / (1 + math.sqrt(1 + x * K / S))


class Settings(NamedTuple):
    """Parameters for NORMA with the hinge loss, and the bound that holds for a run with them."""

    eta: float
    lam: float
    rho: float
    bound: float


def norma_margin_errors(
    mu: float, rho: float, *, B: float, X: float = 1.0, K: float = 0.0, D1: float = 0.0, D2: float = 0.0, m: int = 0
) -> Settings:
    """[K] Theorem 2: with these settings at most `bound` of m examples have `y_t f_t(x_t) <= rho`.

    `eta' = 2 h(mu - rho, K, S)/X^2`, `lam = sqrt(D2/m)/(B eta')`, `eta = eta'/(1 + eta' lam)`; the bound is
    `Phi(K, S, mu - rho)`.

    >>> norma_margin_errors(mu=1.0, rho=0.5, B=2.0)
    Settings(eta=0.5, lam=0.0, rho=0.5, bound=16.0)
    """
    if not 0 <= rho < mu:
        raise ValueError(f"rho must lie in [0, mu) = [0, {mu}), got {rho}; the comparison needs the larger margin")
    S = movement(X, B, D1, D2, m)
    eta, lam = decayed_step(2 * h(mu - rho, K, S) / X**2, B, D2, m)
    return Settings(eta, lam, rho, mistake_bound(K, S, mu - rho))


def norma_mistakes(
    mu: float,
    *,
    B: float,
    X: float = 1.0,
    K: float = 0.0,
    D1: float = 0.0,
    D2: float = 0.0,
    m: int = 0,
    zero_margin: bool = False,
) -> Settings:
    """[K] Theorem 3: with these settings at most `bound` of m examples have `y_t f_t(x_t) <= 0`.

    As Theorem 2 with `r = h(mu, K, S)` and `eta' = 2 r/X^2`; the margin is `mu - r`, or 0, with the same bound
    `Phi(K, S, mu)`.

    >>> norma_mistakes(mu=1.0, B=2.0)
    Settings(eta=1.0, lam=0.0, rho=0.5, bound=4.0)
    """
    S = movement(X, B, D1, D2, m)
    r = h(mu, K, S)
    eta, lam = decayed_step(2 * r / X**2, B, D2, m)
    return Settings(eta, lam, 0.0 if zero_margin else mu - r, mistake_bound(K, S, mu))


def norma_margin_errors_as_run(
    mu: float, rho: float, *, eta: float, lam: float, B: float, X: float = 1.0, K: float = 0.0, m: int = 0
) -> float:
    """Margin errors of NORMA with any constant eta and lam, against one g with `||g|| <= B`; infinity where nothing follows.

    `(B^2 (1 + eta lam m) + 2 eta K)/(2 eta (mu - rho) - eta^2 X^2/(1 - eta lam))`, derived in docs/maths.md: what the proof
    of [K] Theorem 2 gives when its parameters are not the recommended ones.

    >>> norma_margin_errors_as_run(mu=1.0, rho=0.5, eta=0.5, lam=0.0, B=2.0)
    16.0
    """
    a = eta * lam
    if not 0 <= a < 1:
        raise ValueError(f"the theorem needs 0 <= eta*lam < 1, got eta={eta}, lam={lam}")
    gain = 2 * eta * (mu - rho) - (eta * X) ** 2 / (1 - a)
    return (B**2 * (1 + a * m) + 2 * eta * K) / gain if gain > 0 else math.inf


def perceptron_mistakes(R: float, D: float, gamma: float) -> float:
    """[V] Theorem 1 (Freund and Schapire): the perceptron makes at most `((R + D)/gamma)^2` mistakes.

    `||x_t|| <= R`, `D^2 = sum max(0, gamma - y_t theta(x_t))^2` for any theta of length 1 and any gamma > 0.

    >>> perceptron_mistakes(R=2.0, D=0.0, gamma=0.5)
    16.0
    """
    if not gamma > 0:
        raise ValueError(f"gamma must be above 0, got {gamma}; it is the margin that theta should keep")
    return ((R + D) / gamma) ** 2


def voted_perceptron_risk(m: int, expected: float) -> float:
    """[V] Theorem 2: the voted perceptron errs on a new example with at most `2/(m + 1) E[inf ((R + D)/gamma)^2]`.

    The expectation is over samples of m + 1 examples, which no single run shows: with the value of one sample for
    `expected` this is an estimate and **no guarantee**.

    >>> voted_perceptron_risk(99, expected=10.0)
    0.2
    """
    return 2 / (m + 1) * expected


def fixed_rate_regret(eta: float, m: int, *, B: float, c: float = 1.0, X: float = 1.0) -> float:
    """NORMA's conference form, Theorem 1: without decay, `sum l(f_t) <= sum l(g) + B^2/(2 eta) + eta c^2 X^2 m/2`.

    At the recommended `eta = B/(c X sqrt(m))` that is `c B X sqrt(m)`; any convex loss with `|l'| <= c`, any g of norm B.

    >>> fixed_rate_regret(fixed_rate(100, B=2.0), 100, B=2.0)
    20.0
    """
    return B**2 / (2 * eta) + eta * (c * X) ** 2 * m / 2


def fixed_rate(m: int, *, B: float, c: float = 1.0, X: float = 1.0) -> float:
    """The step that NORMA's conference form recommends for m examples, `B/(c X sqrt(m))`."""
    return B / (c * X * math.sqrt(m))


def decreasing_rate_regret(eta: float, m: int, *, B: float, largest: float, c: float = 1.0, X: float = 1.0) -> float:
    """NORMA's conference form, Theorem 2, steps `eta/sqrt(t)` without decay, for the algorithm as it runs:
    `sum l(f_t) <= sum l(g) + ((B + F)^2/(2 eta) + eta c^2 X^2) sqrt(m)`, F = `largest` the largest norm of any f_t.

    With `eta = B/(c X)` and iterates kept in the ball of radius B this is the printed `3 c B X sqrt(m)`; they are not kept
    there here, so F is measured (docs/maths.md).

    >>> decreasing_rate_regret(2.0, 100, B=2.0, largest=2.0)
    60.0
    """
    return ((B + largest) ** 2 / (2 * eta) + eta * (c * X) ** 2) * math.sqrt(m)


def average_risk_bound(comparison: float, regret: float, m: int) -> float:
    """NORMA's conference form, Theorem 3: for i.i.d. examples the average hypothesis has an expected risk of at most
    `R(g) + regret/m`, the expectation over samples too.

    >>> average_risk_bound(0.25, regret=20.0, m=100)
    0.45
    """
    return comparison + regret / m


def decayed_step(eta: float, B: float, D2: float, m: int) -> tuple[float, float]:
    """`lam = sqrt(D2/m)/(B eta')` and `eta = eta'/(1 + eta' lam)` from eta' ([K] (32)); no travel, no decay."""
    lam = math.sqrt(D2 / m) / (B * eta) if D2 else 0.0
    return eta / (1 + eta * lam), lam


def ilk_mistakes(mu: float, *, B: float, X: float = 1.0, K: float = 0.0, D1: float = 0.0, D2: float = 0.0, m: int = 0) -> float:
    """The right-hand side of [C] Theorem 2, `Phi(K, S, mu)`. **Not a guarantee.**

    The theorem leaves eta and C open, and then it is false: with a tiny `eta C` a separable stream breaks it. The
    margin it defines is 0 whenever all wrong labels cost the same; mu here is the comparison's margin, as in [K].

    >>> ilk_mistakes(mu=1.0, B=2.0, X=1.0)
    4.0
    """
    return mistake_bound(K, movement(X, B, D1, D2, m), mu)


class Regret(NamedTuple):
    """`a sqrt(m) + b`: by how much the cumulative regularised risk of m steps may exceed m times that of any fixed g.

    >>> Regret(a=3.0, b=1.0)(100)
    31.0
    """

    a: float
    b: float

    def __call__(self, m: int) -> float:
        return self.a * math.sqrt(m) + self.b


def norma_regret(eta: float, lam: float, *, c: float = 1.0, X: float = 1.0) -> Regret:
    """[K] Theorem 4, steps `eta_t = eta/sqrt(t)`: `sum R_t(f_t) <= sum R_t(g) + a sqrt(m) + b` for every g.

    `R_t(f) = l(f(x_t), y_t) + lam/2 ||f||^2`, `U = c X/lam`, `a = 2 lam U^2 (2 eta lam + 1/(eta lam))` and
    `b = U^2/(2 eta)`.

    >>> norma_regret(eta=0.5, lam=1.0)
    Regret(a=6.0, b=1.0)
    """
    U = norm_bound(eta, lam, c, X)
    return Regret(2 * lam * U**2 * (2 * eta * lam + 1 / (eta * lam)), U**2 / (2 * eta))


def truncated_norma_regret(eta: float, lam: float, *, c: float = 1.0, X: float = 1.0) -> Regret:
    """[K] Theorem 6, Theorem 4 for NORMA that keeps the last `growing(eta, lam, e)(t)` steps: 10 instead of 2 in `a`.

    >>> truncated_norma_regret(eta=0.5, lam=1.0)
    Regret(a=14.0, b=1.0)
    """
    U = norm_bound(eta, lam, c, X)
    return Regret(2 * lam * U**2 * (10 * eta * lam + 1 / (eta * lam)), U**2 / (2 * eta))


def ilk_regret(eta: float, lam: float, *, C: float = 1.0, X: float = 1.0) -> Regret:
    """[C] Theorem 3, steps `eta_t = eta/sqrt(t)`, risk `lam/2 ||f||^2 + C l`: the constants of [K] Theorem 4 at c = C.

    `U = C X/lam`, `a = 4 eta C^2 X^2 + 2 U^2/eta`, `b = U^2/(2 eta)`.

    >>> ilk_regret(eta=0.5, lam=1.0)
    Regret(a=6.0, b=1.0)
    """
    U = C * X / lam
    return Regret(4 * eta * (C * X) ** 2 + 2 * U**2 / eta, U**2 / (2 * eta))


def silk_regret(eta: float, lam: float, *, C: float = 1.0, X: float = 1.0) -> Regret:
    """[C] Theorem 3 for SILK: `a = 4 eta (1 + 2/lam) C^2 X^2 + 2 U^2/eta`, whatever the budget, as the paper states it.

    **Not a guarantee**: with a small budget the regret grows like m, so a long stream breaks it (docs/theory.md);
    :func:`silk_regret_as_run` holds.

    >>> silk_regret(eta=0.5, lam=1.0)
    Regret(a=10.0, b=1.0)
    """
    U = C * X / lam
    return Regret(4 * eta * (1 + 2 / lam) * (C * X) ** 2 + 2 * U**2 / eta, U**2 / (2 * eta))


class RegretAsRun(NamedTuple):
    """`a sqrt(m) + b` and what the dropped terms may have cost up to then; call it with m."""

    regret: Regret
    cost: NDArray[np.float64]

    def __call__(self, m: int) -> float:
        return self.regret(m) + float(self.cost[m - 1])


def silk_regret_as_run(eta: float, lam: float, drops: Any, *, C: float = 1.0, X: float = 1.0) -> RegretAsRun:
    """[C] Theorem 3 for SILK with what its budget really dropped: ILK's bound plus
    `sum (4 U d_t + d_t^2)/(2 eta_t)`, `d_t = |a| sqrt(k(x, x))` of the terms that went at step t (docs/maths.md).

    The printed constant, :func:`silk_regret`, does not depend on the budget and is **no guarantee**: see docs/theory.md.

    >>> silk_regret_as_run(eta=0.5, lam=1.0, drops=[0.0, 0.0])(2) == ilk_regret(eta=0.5, lam=1.0)(2)
    True
    """
    d = np.asarray(drops, np.float64)
    U = C * X / lam
    cost = np.cumsum((4 * U * d + d * d) * np.sqrt(np.arange(1, len(d) + 1)) / (2 * eta))
    return RegretAsRun(ilk_regret(eta, lam, C=C, X=X), cost)


def norm_bound(eta: float, lam: float, c: float = 1.0, X: float = 1.0) -> float:
    """`U = c X/lam`: no hypothesis of NORMA, and no best one in hindsight, has a larger norm ([K] (34))."""
    if not 0 < eta * lam < 1:
        raise ValueError(f"the theorem needs 0 < eta*lam < 1, got eta={eta}, lam={lam}")
    return c * X / lam


def expected_risk_bound(empirical: float, regret: Regret, m: int, *, largest: float, delta: float) -> float:
    """[K] Corollary 5: with probability 1 - delta the average hypothesis has at most this expected regularised risk.

    `R_reg(g, S) + (a + L sqrt(2 ln(1/delta)))/sqrt(m) + b/m`, with `empirical = R_reg(g, S)` for any g and `largest` =
    L a bound on the risk of one example. The average runs over f_1 ... f_m (the paper's sum stops at m - 1).

    >>> expected_risk_bound(0.25, Regret(6.0, 1.0), 10_000, largest=2.5, delta=1.0)
    0.3101
    """
    return empirical + (regret.a + largest * math.sqrt(2 * math.log(1 / delta))) / math.sqrt(m) + regret.b / m


def truncation_error(window: int, *, eta: float, lam: float, C: float = 1.0, X: float = 1.0, t: int | None = None) -> float:
    """[K] Proposition 1: the largest norm of what a window of the last steps leaves out of f, `|l'| <= C`.

    `sum_{i=1}^{t-w} eta (1 - lam eta)^(t-i) C X`; without t its limit `(1 - lam eta)^w C X/lam`.

    >>> truncation_error(100, eta=0.1, lam=1.0) < 3e-5
    True
    """
    keep = 1 - lam * eta
    if t is None:
        return keep**window * C * X / lam if lam > 0 else math.inf
    left_out = max(t - window, 0)
    return C * X * ((keep**window - keep ** (window + left_out)) / lam if lam > 0 else eta * left_out)


def left_out(coefs: Iterable[float], lengths: Iterable[float], kept: Iterable[float]) -> float:
    """[K] Proposition 1 at run time: a bound on the norm of the terms that a run dropped, from their own coefficients.

    A term of coefficient a at a point of length `sqrt(k(x, x))`, dropped, after which f was multiplied by `kept` in all,
    leaves out `|a| length kept`; the triangle inequality adds them up.

    >>> left_out([0.5, -0.25], [1.0, 2.0], [0.5, 1.0])
    0.75
    """
    return float(sum(abs(a) * length * share for a, length, share in zip(coefs, lengths, kept)))


class Growing(Value):
    """How many of the last steps to keep at time t: all up to `start`, then `ceil(t^(1/2 + e))`; call it with t."""

    e: float
    start: float

    def __call__(self, t: int) -> int:
        return t if t <= self.start else math.ceil(t ** (0.5 + self.e))


def growing(eta: float, lam: float, e: float, t0: float | None = None) -> Growing:
    """The growth schedule of [K] Theorem 6 for steps `eta/sqrt(t)`: `s_t = t` for `t <= t0`, then `ceil(t^(1/2 + e))`.

    `t0`, unless given, is the smallest from which on `exp(-eta lam t^e) <= eta lam/sqrt(t)` and
    `ceil(t^(1/2 + e)) <= 3 t/4`. The paper assumes that s grows by at most 1 a step, but by its own formula s drops
    by a quarter or more just after t0; that is followed to the letter, several points leaving at once. For small
    `eta lam` or e the theorem's t0 lies beyond any stream: give your own then, and the bound is no longer promised.

    >>> keep = growing(eta=0.7, lam=1.0, e=0.25)
    >>> keep.start, keep(757), keep(758), keep(10_000)
    (757, 757, 145, 1000)
    >>> growing(eta=0.1, lam=0.01, e=0.1).start > 1e40
    True
    """
    if not 0 < e < 0.5:
        raise ValueError(f"e must lie strictly between 0 and 1/2, got {e}")
    if t0 is not None:
        return Growing(e, t0)
    norm_bound(eta, lam)  # refuses what the theorem does not cover
    rate, power = eta * lam, 0.5 + e
    decayed = from_on(
        lambda t: math.exp(-rate * t**e) <= rate / math.sqrt(t),
        lambda x: rate * math.exp(e * x) - x / 2 + math.log(rate),  # the same in x = log t: convex,
        max(0.0, -math.log(2 * rate * e) / e),  # and increasing right of here
    )
    sparse = from_on(
        lambda t: math.ceil(t**power) <= 3 * t / 4,
        lambda x: x + math.log(0.75) - power * x - math.log1p(math.exp(-power * x)),  # t^power + 1 <= 3t/4: sufficient
        0.0,
    )
    return Growing(e, max(decayed, sparse))


def from_on(holds: Callable[[int], bool], slack: Callable[[float], float], low: float) -> float:
    """The smallest integer from which on `holds` is always true.

    `slack(log t)` increases right of `low`, and where it is not negative `holds(t)` is true: bisect it, then walk down.
    Beyond the integers that a float can tell apart the walk has no meaning, beyond the floats the answer is infinity.
    """
    high = low
    while slack(high) < 0:
        low, high = high, 2 * high + 1
        if high > 1e4:
            return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if slack(middle) < 0 else (low, middle)
    if high > 36:
        return math.exp(high) if high < 709 else math.inf
    t = math.ceil(math.exp(high)) + 1
    while t > 1 and holds(t - 1):
        t -= 1
    return t
