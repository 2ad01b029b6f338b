"""Every algorithm of the papers as slow, plain Python: the twin that each fast path is compared with.

Written from the equations alone, in float64; nothing is lazy, and what can be recomputed is never carried along. A
predictor is a list of points with one row of m coefficients each (m = 1, label kernel [[1]], for scalar problems):

    f(x, .) = kappa @ sum_i k(x_i, x) A_i         <f, g> = sum_ij k(x_i, x_j) A_i' kappa B_j

A step turns f into s f + a k(x, .), an adaptive one also v into p v + r f + c k(x, .); then the budget is kept.
[K] NORMA, [C] ILK and SILK, [V] SVMD, [G] ALMA. What the papers do not define is marked "ours".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from tests.core.naive_parts import (
    Array,
    KernelFunction,
    flat,
    growing_size,
    growing_t0,
    inv_sqrt,
    laplacian,
    linear,
    matern,
    polynomial,
    rbf,
    sqrt_decay,
    tree,
)

__all__ = [
    "flat",
    "growing_size",
    "growing_t0",
    "inv_sqrt",
    "laplacian",
    "linear",
    "matern",
    "polynomial",
    "rbf",
    "sqrt_decay",
    "tree",
]
MARGIN, TUBE, LABELLED = ("hinge", "novelty", "structured"), ("eps", "huber"), ("structured", "softmax")
CLIPPED = ("hinge", "novelty", "structured", "eps")
DEFAULT_THETA = {"hinge": 1.0, "novelty": 1.0, "structured": 1.0, "eps": 0.1, "huber": 1.0}

# -------------------------------------------------------------------------------------------------------------- losses


def softmax(g: Array) -> Array:
    p = np.exp(g - g.max())
    return p / p.sum()


def runner_up(g: Array, y: int, theta: float, cost: Array) -> int | None:
    """y* = argmax over z != y of theta Delta(y, z) + g_z, lowest index on ties; None if there is no other label."""
    others = [z for z in range(len(g)) if z != y]
    return max(others, key=lambda z: (theta * cost[y, z] + g[z], -z), default=None)


def loss_at(loss: str, g: Array, y: Any, theta: float, cost: Array | None = None, tie: bool = False):
    """Value, derivative xi and Hessian H in the scores g, and the violation that the nu-trick counts.

    Violations are strict, except that `tie` lets a hinge update exactly at its margin (NORMA, [K] (14)).
    """
    m = len(g)
    if loss in ("hinge", "novelty"):
        sign = 1.0 if loss == "novelty" else float(y)
        gap = theta - sign * g[0]
        hit = gap > 0 or (tie and loss == "hinge" and gap == 0)
        return max(0.0, gap), np.array([-sign * hit]), np.zeros((1, 1)), float(hit)
    if loss == "structured":
        rival = runner_up(g, y, theta, cost)
        gap = theta * cost[y, rival] + g[rival] - g[y] if rival is not None else 0.0
        if gap > 0:
            return gap, np.eye(m)[rival] - np.eye(m)[y], np.zeros((m, m)), cost[y, rival]
        return 0.0, np.zeros(m), np.zeros((m, m)), 0.0
    if loss == "softmax":
        p, value = softmax(g), math.log(np.exp(g - g.max()).sum()) + g.max() - g[y]
        return value, p - np.eye(m)[y], np.diag(p) - np.outer(p, p), 0.0
    if loss == "logistic":
        curvature = expit(g[0]) * expit(-g[0])
        return np.logaddexp(0.0, -y * g[0]), np.array([-y * expit(-y * g[0])]), np.array([[curvature]]), 0.0
    d = y - g[0]
    if loss == "square":
        return 0.5 * d**2, np.array([-d]), np.eye(1), 0.0
    outside = abs(d) > theta
    if loss == "eps":
        return max(0.0, abs(d) - theta), np.array([-np.sign(d) * outside]), np.zeros((1, 1)), float(outside)
    if loss == "huber" and outside:
        return abs(d) - theta / 2, np.array([-np.sign(d)]), np.zeros((1, 1)), 1.0
    if loss == "huber":
        return d**2 / (2 * theta), np.array([-d / theta]), np.eye(1) / theta, 0.0
    raise ValueError(f"loss {loss!r} is not known")


def is_mistake(loss: str, g: Array, y: Any, violation: float) -> bool:
    """A tie is a mistake. Without classes (ours): an alert, a point outside the tube; never for the squared loss."""
    if loss in ("hinge", "logistic"):
        return bool(y * g[0] <= 0)
    if loss in LABELLED:
        return any(g[y] <= g[z] for z in range(len(g)) if z != y)
    return violation > 0


# --------------------------------------------------------------------------------------------------- the implicit step


def pieces(loss: str, z: Array, y: Any, theta: float, cost: Array | None, rival: int | None, exact: bool):
    """A clipped loss is max(0, gap_1, gap_2, ...): the gaps at the scores z, and the derivative d_j of each in z."""
    if loss == "structured":
        others = [j for j in range(len(z)) if j != y and (exact or j == rival)]
        gaps = np.array([theta * cost[y, j] + z[j] - z[y] for j in others])
        return gaps, np.array([np.eye(len(z))[j] - np.eye(len(z))[y] for j in others]).reshape(-1, len(z))
    if loss == "eps":  # of the two sides of the tube only the one where z lies can be active
        return np.array([abs(y - z[0]) - theta]), np.array([[-np.sign(y - z[0])]])
    sign = 1.0 if loss == "novelty" else float(y)
    return np.array([theta - sign * z[0]]), np.array([[-sign]])


def solve_pinned(M: Array, right: Array, S: list[int], total: float | None) -> tuple[Array, float]:
    """p with support S and (M p)_S = right_S; or, if the sum of p is to be `total`, = right_S - multiplier."""
    n, p = len(S), np.zeros(len(right))
    matrix, column = M[np.ix_(S, S)], right[S]
    if total is not None:
        matrix = np.block([[matrix, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        column = np.append(column, total)
    solution = np.linalg.solve(matrix, column)
    p[S] = solution[:n]
    return p, float(solution[n]) if total is not None else 0.0


def simplex_qp(M: Array, gaps: Array, U: float) -> tuple[Array, list[int], bool]:
    """argmin 1/2 p'Mp - gaps'p over p >= 0, sum p <= U; also its support and whether the sum is at the cap.

    Every support is tried, capped or not; the one that breaks the optimality conditions least is the solution.
    """
    best, least = (np.zeros(len(gaps)), [], False), max(0.0, *gaps, 0.0)
    if not M.any():  # k(x, .) = 0 in H: the coefficients have no effect, and nothing is stored
        return best
    if len(gaps) == 1:  # the clip that the papers print
        p = np.clip(gaps / M[0], 0.0, U)
        return p, [0] if p[0] > 0 else [], bool(p[0] >= U)
    for S in (list(S) for size in range(1, len(gaps) + 1) for S in combinations(range(len(gaps)), size)):
        for capped in (False, True):
            try:
                p, multiplier = solve_pinned(M, gaps, S, U if capped else None)
            except np.linalg.LinAlgError:
                continue
            slope = np.delete(M @ p - gaps + multiplier, S)
            broken = max(0.0, -multiplier, *-p, *-slope, 0.0 if capped else p.sum() - U)
            if broken < least:
                best, least = (np.maximum(p, 0.0), S, capped), broken
    return best


def prox(loss, z, K, U, y, theta, cost=None, rival=None, exact=False) -> tuple[Array, Callable[[Array, float], Array]]:
    """The coefficients a = -U xi(z + K a), and a function giving their derivative da along any (dz, dU)."""
    if loss in CLIPPED:  # a = -sum_j p_j d_j with p from the dual
        gaps, directions = pieces(loss, z, y, theta, cost, rival, exact)
        M = directions @ K @ directions.T
        p, S, capped = simplex_qp(M, gaps, U)

        def clipped_slope(dz: Array, dU: float) -> Array:
            """The support stays: its gaps stay pinned at 0, or at one common level while the sum of p follows U."""
            return -solve_pinned(M, directions @ dz, S, dU if capped else None)[0] @ directions if S else 0.0 * z

        return -p @ directions, clipped_slope

    if loss == "square":
        a = U * (y - z) / (1 + U * K[0])
    elif loss == "huber":  # a = U d'/sigma at the new distance d' = d - K a while that is below U, else U sgn d
        a = np.clip(U * (y - z) / (theta + U * K[0]), -U, U)
    elif loss == "logistic":
        a = np.array([y * logistic_root(y * z[0], K[0, 0], U)])
    else:
        a = softmax_root(z, K, U, y)

    def smooth_slope(dz: Array, dU: float) -> Array:
        """(I + U H K) da = -(dU xi + U H dz) with xi and H at the new scores."""
        _, xi, H, _ = loss_at(loss, z + K @ a, y, theta)
        return np.linalg.solve(np.eye(len(z)) + U * H @ K, -(dU * xi + U * H @ dz))

    return a, smooth_slope


def logistic_root(margin: float, kxx: float, U: float) -> float:
    """s in [0, U] with s = U / (1 + exp(margin + s kxx)); left minus right side increases in s."""

    def excess(s: float) -> float:
        return s - U * expit(-(margin + s * kxx))

    return 0.0 if excess(0.0) >= 0 else brentq(excess, 0.0, U, xtol=1e-300, rtol=1e-15, maxiter=1000)


def softmax_root(z: Array, K: Array, U: float, y: int) -> Array:
    """a + U (softmax(z + K a) - e_y) = 0 by Newton, each move halved until the residual falls, until none does."""

    def residual(a: Array) -> Array:
        return a + U * (softmax(z + K @ a) - np.eye(len(z))[y])

    a: Array | None = np.zeros(len(z))
    while a is not None:
        found, p, size = a, softmax(z + K @ a), np.linalg.norm(residual(a))
        move = -np.linalg.solve(np.eye(len(z)) + U * (np.diag(p) - np.outer(p, p)) @ K, residual(a))
        tries = (found + 0.5**n * move for n in range(40))
        a = next((nearer for nearer in tries if np.linalg.norm(residual(nearer)) < size), None)
    return found


# ------------------------------------------------------------------------------------------------------------- learner


class Naive:
    """One learner for all recipes: `run` a stream or `step` one example, then read points, born, coef, b, eta, theta.

    step      "explicit" (NORMA), "implicit" (ILK), "adaptive" (SVMD), "adaptive_implicit" (ours), "alma"
    eta       a number or a function of t = 1, 2, ...; for adaptive steps the number they start from
    theta     the loss's rho, epsilon or sigma; under the nu-trick of SVMD it starts from epsilon0 instead
    budget    at most so many terms; drop = "oldest", "smallest" (SILK), "merge" or "project" (ours)
    window    the last so many time steps;   growing = (e, t0) the last s_t of them, [K] Theorem 6
    labels    (cost, kappa), for "structured" and "softmax"
    repair    False: <f,v> follows its recursion uncorrected when a term is dropped
    """

    def __init__(
        self,
        kernel: KernelFunction,
        loss: str = "hinge",
        step: str = "explicit",
        *,
        eta: float | Callable[[int], float] = 0.1,
        lam: float = 0.01,
        C: float = 1.0,
        theta: float | None = None,
        nu: float | None = None,
        offset: bool = False,
        budget: int | None = None,
        drop: str = "oldest",
        window: int | None = None,
        growing: tuple[float, float] | None = None,
        exact: bool = False,
        labels: tuple[Array, Array] | None = None,
        mu: float = 0.1,
        decay: float = 0.95,
        eta_min: float | None = None,
        eta_max: float | None = None,
        epsilon0: float = 1.0,
        repair: bool = True,
        alpha: float = 0.9,
        B: float | None = None,
        alma_C: float | None = None,
    ) -> None:
        if nu is not None and (step not in ("explicit", "adaptive") or loss not in MARGIN + TUBE):
            raise ValueError("nu needs an explicit or adaptive step and a loss with a margin or a tube")
        if offset and step in ("adaptive_implicit", "alma"):
            raise ValueError(f"no offset is defined for the step {step!r}")
        if (labels is not None) != (loss in LABELLED):
            raise ValueError("labels=(cost, kappa) belongs to the losses structured and softmax, and only to them")
        self.kernel, self.loss, self.rule, self.schedule = kernel, loss, step, eta
        self.lam, self.C, self.nu, self.offset, self.exact = lam, C, nu, offset, exact
        self.budget, self.drop, self.window, self.growing = budget, drop, window, growing
        self.cost, self.kappa = labels if labels is not None else (None, np.eye(1))
        self.mu, self.decay, self.repair = mu, decay, repair
        self.eta_min, self.eta_max = eta_min or 0.0, eta_max or math.inf
        self.m = len(self.kappa)

        self.t = 0
        self.points: list[Any] = []
        self.born: list[int] = []  # the time step of each point
        self.alpha: list[Array] = []  # the rows of f
        self.beta: list[Array] = []  # the rows of v
        self.b = np.zeros(self.m)
        self.eta = math.nan if callable(eta) else eta
        self.theta = DEFAULT_THETA.get(loss, 0.0) if theta is None else theta
        if step == "adaptive":
            self.theta = self.theta if nu is None else epsilon0
            self.eta_b, self.v_b = np.full(self.m, float(self.eta)), np.zeros(self.m)
            self.eta_theta, self.v_theta = 1.0, 0.0
        if step == "alma":
            self.updates, self.alma_C = 1, math.sqrt(2) if alma_C is None else alma_C
            self.asked = (1 - alpha) * (math.sqrt(8) / alpha if B is None else B)
            self.theta = self.asked
        self.fv, self.ff = 0.0, 0.0  # <f,v> and ||f||^2 by recursion, read only when repair is False
        self._values: dict[tuple[int, int], float] = {}

    # ---------------------------------------------------------------------------------------- what the expansion says

    def f(self, x: Any, rows: list[Array] | None = None) -> Array:
        """f(x, .) without offset, or the same for other rows: `f(x, self.beta)` is v(x, .)."""
        mixed = np.zeros(self.m)
        for x_i, row in zip(self.points, self.alpha if rows is None else rows, strict=True):
            mixed = mixed + self.kernel(x_i, x) * row
        return np.array([sum(self.kappa[z, y] * mixed[y] for y in range(self.m)) for z in range(self.m)])

    def score(self, x: Any) -> float | Array:
        """f(x, .) + b."""
        g = self.f(x) + self.b
        return g if self.loss in LABELLED else float(g[0])

    def gram(self) -> Array:
        """Kernel values between the points stored now (each pair computed once and remembered)."""
        named = list(zip(self.born, self.points, strict=True))
        for s, x in named:
            for t, z in named:
                if (s, t) not in self._values:
                    self._values[s, t] = self.kernel(x, z)
        return np.array([[self._values[s, t] for t in self.born] for s in self.born]).reshape(len(named), len(named))

    def inner(self, A: list[Array], B: list[Array]) -> float:
        """sum_ij k(x_i, x_j) A_i' kappa B_j over the points stored now."""
        left, right = np.array(A).reshape(-1, self.m), np.array(B).reshape(-1, self.m)
        return float(np.sum(self.gram() * (left @ self.kappa @ right.T)))

    @property
    def coef(self) -> Array:
        """The rows of f, oldest first: (n,) or (n, m)."""
        return self._stack(self.alpha)

    @property
    def beta_coef(self) -> Array:
        """The rows of v, likewise."""
        return self._stack(self.beta)

    def _stack(self, rows: list[Array]) -> Array:
        stacked = np.array(rows).reshape(-1, self.m)
        return stacked if self.loss in LABELLED else stacked[:, 0]

    # ---------------------------------------------------------------------------------------------------- one example

    def step(self, x: Any, y: Any = None) -> dict[str, Any]:
        """Predict, learn, keep the budget. Scores (with offset), loss, mistake: before the update; eta: as used."""
        self.t += 1
        F, kxx = self.f(x), self.kernel(x, x)
        g = F / math.sqrt(kxx) if self.rule == "alma" and kxx > 0 else F + self.b
        at_equality = self.rule in ("explicit", "alma")
        value, xi, H, violation = loss_at(self.loss, g, y, self.theta, self.cost, at_equality)
        row = {"scores": self.score(x), "loss": float(value), "mistake": is_mistake(self.loss, g, y, violation)}
        getattr(self, f"_{self.rule}")(x, y, F, kxx, xi, H, violation)
        self._keep()
        if not np.isfinite([self.eta, self.theta, *self.b, *np.ravel(self.alpha), *np.ravel(self.beta)]).all():
            raise FloatingPointError(f"not finite after step {self.t}")
        return row | {"eta": float(self.eta), "theta": float(self.theta), "size": len(self.points)}

    def run(self, X: Sequence[Any], Y: Sequence[Any] | None = None) -> dict[str, Array]:
        """Every example in turn; the rows of `step` as columns."""
        rows = [self.step(x, None if Y is None else Y[i]) for i, x in enumerate(X)]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _move(self, x, s, a, p=0.0, r=0.0, c=None) -> None:
        """f <- s f + a k(x, .), v <- p v + r f + c k(x, .), from the old f and v. A term with a = 0 is not stored."""
        c = np.zeros(self.m) if c is None else c
        if not self.repair:
            F, V, K = self.f(x), self.f(x, self.beta), self.kernel(x, x) * self.kappa
            self.fv = s * p * self.fv + s * r * self.ff + s * c @ F + p * a @ V + r * a @ F + a @ K @ c
            self.ff = s**2 * self.ff + 2 * s * a @ F + a @ K @ a
        self.beta = [p * old_v + r * old_f for old_v, old_f in zip(self.beta, self.alpha, strict=True)]
        self.alpha = [s * old_f for old_f in self.alpha]
        if np.any(a != 0):
            self.points.append(x)
            self.born.append(self.t)
            self.alpha.append(a)
            self.beta.append(c)

    # ----------------------------------------------------------------------------------------------- the update rules

    def _explicit(self, x, y, F, kxx, xi, H, violation) -> None:
        """f <- (1 - eta lam) f - eta C xi k(x, .);  b <- b - eta C xi;  theta: by descent."""
        self.eta = self._scheduled()
        self._move(x, 1 - self.eta * self.lam, -self.eta * self.C * xi)
        if self.offset:
            self.b = self.b - self.eta * self.C * xi
        if self.nu is not None:
            self.theta = self._floor(self.theta + self.eta * self._push(violation))

    def _implicit(self, x, y, F, kxx, xi, H, violation) -> None:
        """argmin 1/2 ||f - f_t||^2 + eta (lam/2 ||f||^2 + C L(f)), with an offset (ours) plus 1/2 |b - b_t|^2."""
        self.eta = self._scheduled()
        q = 1 / (1 + self.eta * self.lam)
        K = kxx * self.kappa + (np.eye(self.m) / q if self.offset else 0.0)
        rival = runner_up(F + self.b, y, self.theta, self.cost) if self.loss == "structured" else None
        U = q * self.eta * self.C
        a, _ = prox(self.loss, q * F + self.b, K, U, y, self.theta, self.cost, rival, self.exact)
        self._move(x, q, a)
        if self.offset:
            self.b = self.b + a / q

    def _adaptive(self, x, y, F, kxx, xi, H, violation) -> None:
        """Algorithm 2 of [V]: each step size is adapted before it is used, all else reads time-t values."""
        lam, mu, decay, xi, H = self.lam, self.mu, self.decay, self.C * xi, self.C * H
        V = self.f(x, self.beta)
        self._adapt(xi @ V)
        if self.offset:
            self.eta_b = self.eta_b * np.maximum(0.5, 1 - mu * xi * self.v_b)  # (51)
            self.v_b = decay * self.v_b - self.eta_b * xi  # (52)
            self.b = self.b - self.eta_b * xi  # (50)
        if self.nu is not None:
            q = self.theta * self._push(violation)
            self.eta_theta = self.eta_theta * max(0.5, 1 + mu * self.v_theta * q)  # (57)
            self.v_theta = decay * self.v_theta + self.eta_theta * q * (1 + decay * self.v_theta)  # (58)
            self.theta = self._floor(self.theta * math.exp(np.clip(self.eta_theta * q, -700, 700)))  # (56)
        s, chi = 1 - self.eta * lam, H @ V  # (43), (44)
        self._move(x, s, -self.eta * xi, s * decay, -self.eta * lam, -self.eta * (xi + decay * chi))  # (32), (40), (42)

    def _adaptive_implicit(self, x, y, F, kxx, xi, H, violation) -> None:
        """Ours: v follows the derivative of q f + a k(x, .) in log eta; dq = -q (1 - q), dU = U q, dz = q V + dq F."""
        V = self.f(x, self.beta)
        self._adapt(self.C * xi @ V)
        q = 1 / (1 + self.eta * self.lam)
        U, dq = q * self.eta * self.C, -q * (1 - q)
        rival = runner_up(F, y, self.theta, self.cost) if self.loss == "structured" else None
        a, slope = prox(self.loss, q * F, kxx * self.kappa, U, y, self.theta, self.cost, rival, self.exact)
        self._move(x, q, a, q * self.decay, dq, slope(q * self.decay * V + dq * F, U * q))

    def _alma(self, x, y, F, kxx, xi, H, violation) -> None:
        """w += C/sqrt(k) y xhat if y <w, xhat> <= (1 - alpha) B/sqrt(k) = theta, then back into the ball; k += 1."""
        self.eta = self.alma_C / math.sqrt(self.updates)
        if kxx > 0 and violation:
            self._move(x, 1.0, -self.eta * xi / math.sqrt(kxx))
            norm = math.sqrt(self.inner(self.alpha, self.alpha))
            self.alpha = [row / max(1.0, norm) for row in self.alpha]
            self.updates += 1
            self.theta = self.asked / math.sqrt(self.updates)

    def _scheduled(self) -> float:
        return self.schedule(self.t) if callable(self.schedule) else self.schedule

    def _adapt(self, loss_part: float) -> None:
        """eta <- eta max(1/2, 1 - mu <g,v>), <g,v> = lam <f,v> + C xi.V: [V] (33), (45); kept in [eta_min, eta_max]."""
        fv = self.inner(self.alpha, self.beta) if self.repair else self.fv
        eta = self.eta * max(0.5, 1 - self.mu * (self.lam * fv + loss_part))
        self.eta = min(max(eta, self.eta_min), self.eta_max)

    def _push(self, violation: float) -> float:
        """Violations above nu make a margin shrink and a tube grow."""
        return self.nu - violation if self.loss in MARGIN else violation - self.nu

    def _floor(self, theta: float) -> float:
        return max(theta, 1e-12 if self.loss == "huber" else 0.0)

    # ---------------------------------------------------------------------------------------------------- the budgets

    def _keep(self) -> None:
        """Leave what f_{t+1} may hold: time steps first, then terms."""
        spans = [] if self.window is None else [self.window]
        spans += [] if self.growing is None else [growing_size(self.t + 1, *self.growing)]
        while spans and self.born and self.born[0] < self.t + 1 - min(spans):
            self._remove(0)
        while self.budget is not None and len(self.points) > self.budget:
            sizes = [np.abs(row).max() for row in self.alpha]
            j = 0 if self.drop == "oldest" else sizes.index(min(sizes))  # the new one competes, oldest of equals
            k_j = np.delete(self.gram()[j], j)
            a_j, beta_j = self._remove(j)
            shares = self._shares(k_j)
            self.alpha = [row + share * a_j for row, share in zip(self.alpha, shares, strict=True)]
            self.beta = [row + share * beta_j for row, share in zip(self.beta, shares, strict=True)]

    def _shares(self, k_j: Array) -> Array:
        """How much of the dropped k(x_j, .) each remaining k(x_n, .) takes over; k_j holds the values k(x_n, x_j)."""
        G, shares = self.gram(), np.zeros(len(k_j))
        if self.drop == "merge":  # the one point that leaves the least of it behind, the oldest of equals
            kept = [k_j[n] ** 2 / G[n, n] if G[n, n] > 0 else 0.0 for n in range(len(k_j))]
            if max(kept, default=0.0) > 0:
                n = kept.index(max(kept))
                shares[n] = k_j[n] / G[n, n]
        elif self.drop == "project" and len(k_j):  # onto the span of all that remain
            shares = np.linalg.lstsq(G, k_j, rcond=None)[0]
        elif self.drop not in ("oldest", "smallest", "project"):
            raise ValueError(f"drop {self.drop!r} is not known")
        return shares

    def _remove(self, i: int) -> tuple[Array, Array]:
        del self.points[i], self.born[i]
        return self.alpha.pop(i), self.beta.pop(i)
