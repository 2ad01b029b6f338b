"""Losses: what a wrong score costs, how steep that cost is, and the exact implicit step for it.

A loss of one score f has, compiled, with theta its margin or tube (which the nu-trick may move, hence an argument):

    value(f, y, theta)                 the cost
    slope(f, y, theta, tie)            its derivative in f; at the kink 0, unless ``tie`` asks for the steep side ([K] (14))
    curvature(f, y, theta)             its second derivative
    prox(z, y, theta, cap, k)          a with  a = -cap slope(z + k a)
    tangent(...)                       how that a moves when z and cap move by dz and dcap (meta-descent on implicit steps)
    mistake, violated                  what counts as an online mistake, and as a violation for the nu-trick

A loss over labels has the same on vectors of m scores; ``consider`` finds the label that the others ask for, y*.
A kink is resolved in one way everywhere: see each class.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from onkel.compiled import Value, compiled
from onkel.labels import Labels
from onkel.prox import clip, logistic_root, sigmoid, simplex_qp, softmax, softmax_prox, solve


def _threshold(loss: str, name: str, value: Any, positive: bool) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0.0 or (positive and number == 0.0):
        raise ValueError(f"{loss}: {name} must be a finite number {'above' if positive else 'of at least'} 0; got {value!r}")
    return number


@compiled
def _clipped_tangent(a, cap, k, dz, dcap):
    """Of a = clip(-(z - kink)/k, -cap, cap): at the cap it moves with the cap, between it holds the score at the kink."""
    if a == 0.0:
        return 0.0
    if abs(a) >= cap:
        return np.sign(a) * dcap
    return -dz / k


@compiled
def _smooth_tangent(slope, curvature, cap, k, dz, dcap):
    return -(dcap * slope + cap * curvature * dz) / (1.0 + cap * curvature * k)


class _Margin(NamedTuple):
    rho: float


class Hinge(Value, _Margin):
    """max(0, rho - y f), y = +1 or -1.  rho = 0 makes the perceptron of an explicit step.

    At y f = rho an explicit step updates ([K] (14)), an adaptive one does not ([V] (15)).
    """

    __slots__ = ()
    targets = "signs"

    def __new__(cls, rho: float = 1.0) -> Hinge:
        return super().__new__(cls, _threshold("Hinge", "rho", rho, positive=False))

    @property
    def theta(self) -> float:
        return self.rho

    @compiled
    def value(loss, f, y, theta):
        return max(0.0, theta - y * f)

    @compiled
    def slope(loss, f, y, theta, tie):
        return -y if y * f < theta or (tie and y * f == theta) else 0.0

    @compiled
    def curvature(loss, f, y, theta):
        return 0.0

    @compiled
    def violated(loss, f, y, theta, tie):
        return y * f < theta or (tie and y * f == theta)

    @compiled
    def mistake(loss, f, y, theta):
        return y * f <= 0.0

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return y * clip((theta - y * z) / k, 0.0, cap) if k > 0.0 else 0.0

    @compiled
    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        return _clipped_tangent(a, cap, k, dz, dcap)


class Novelty(Value, _Margin):
    """max(0, rho - f): points of low score are novel.  Only f < rho updates.  A "mistake" of the trace is an alert, f < rho."""

    __slots__ = ()
    targets = "none"

    def __new__(cls, rho: float = 1.0) -> Novelty:
        return super().__new__(cls, _threshold("Novelty", "rho", rho, positive=False))

    @property
    def theta(self) -> float:
        return self.rho

    @compiled
    def value(loss, f, y, theta):
        return max(0.0, theta - f)

    @compiled
    def slope(loss, f, y, theta, tie):
        return -1.0 if f < theta else 0.0

    @compiled
    def curvature(loss, f, y, theta):
        return 0.0

    @compiled
    def violated(loss, f, y, theta, tie):
        return f < theta

    @compiled
    def mistake(loss, f, y, theta):
        return f < theta

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return clip((theta - z) / k, 0.0, cap) if k > 0.0 else 0.0

    @compiled
    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        return _clipped_tangent(a, cap, k, dz, dcap)


class Square(Value, NamedTuple("_Square", [])):
    """1/2 (y - f)^2"""

    __slots__ = ()
    targets = "reals"
    theta = math.nan

    @compiled
    def value(loss, f, y, theta):
        return 0.5 * (y - f) * (y - f)

    @compiled
    def slope(loss, f, y, theta, tie):
        return f - y

    @compiled
    def curvature(loss, f, y, theta):
        return 1.0

    @compiled
    def violated(loss, f, y, theta, tie):
        return False

    @compiled
    def mistake(loss, f, y, theta):
        return False

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return cap * (y - z) / (1.0 + cap * k)

    @compiled
    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        return _smooth_tangent(z + k * a - y, 1.0, cap, k, dz, dcap)


class Logistic(Value, NamedTuple("_Logistic", [])):
    """log(1 + exp(-y f)), y = +1 or -1"""

    __slots__ = ()
    targets = "signs"
    theta = math.nan

    @compiled
    def value(loss, f, y, theta):
        margin = y * f
        return max(0.0, -margin) + math.log1p(math.exp(-abs(margin)))

    @compiled
    def slope(loss, f, y, theta, tie):
        return -y * sigmoid(-y * f)

    @compiled
    def curvature(loss, f, y, theta):
        return sigmoid(f) * sigmoid(-f)

    @compiled
    def violated(loss, f, y, theta, tie):
        return False

    @compiled
    def mistake(loss, f, y, theta):
        return y * f <= 0.0

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return y * logistic_root(y * z, k, cap)

    @compiled
    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        u = z + k * a
        return _smooth_tangent(-y * sigmoid(-y * u), sigmoid(u) * sigmoid(-u), cap, k, dz, dcap)


class _Tube(NamedTuple):
    epsilon: float


class EpsilonInsensitive(Value, _Tube):
    """max(0, |y - f| - epsilon).  Only |y - f| > epsilon updates.  A "mistake" of the trace is a point outside the tube."""

    __slots__ = ()
    targets = "reals"

    def __new__(cls, epsilon: float = 0.1) -> EpsilonInsensitive:
        return super().__new__(cls, _threshold("EpsilonInsensitive", "epsilon", epsilon, positive=False))

    @property
    def theta(self) -> float:
        return self.epsilon

    @compiled
    def value(loss, f, y, theta):
        return max(0.0, abs(y - f) - theta)

    @compiled
    def slope(loss, f, y, theta, tie):
        return -np.sign(y - f) if abs(y - f) > theta else 0.0

    @compiled
    def curvature(loss, f, y, theta):
        return 0.0

    @compiled
    def violated(loss, f, y, theta, tie):
        return abs(y - f) > theta

    @compiled
    def mistake(loss, f, y, theta):
        return abs(y - f) > theta

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return np.sign(y - z) * clip((abs(y - z) - theta) / k, 0.0, cap) if k > 0.0 else 0.0

    @compiled
    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        return _clipped_tangent(a, cap, k, dz, dcap)


class _Scale(NamedTuple):
    sigma: float


class Huber(Value, _Scale):
    """With d = y - f:  |d| - sigma/2 if |d| >= sigma, else d^2 / (2 sigma).  A "mistake" of the trace is |d| > sigma."""

    __slots__ = ()
    targets = "reals"

    def __new__(cls, sigma: float = 1.0) -> Huber:
        return super().__new__(cls, _threshold("Huber", "sigma", sigma, positive=True))

    @property
    def theta(self) -> float:
        return self.sigma

    @compiled
    def value(loss, f, y, theta):
        d = abs(y - f)
        return d - 0.5 * theta if d >= theta else 0.5 * d * d / theta

    @compiled
    def slope(loss, f, y, theta, tie):
        return clip((f - y) / theta, -1.0, 1.0)

    @compiled
    def curvature(loss, f, y, theta):
        return 1.0 / theta if abs(y - f) < theta else 0.0

    @compiled
    def violated(loss, f, y, theta, tie):
        return abs(y - f) > theta

    @compiled
    def mistake(loss, f, y, theta):
        return abs(y - f) > theta

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return clip(cap * (y - z) / (theta + cap * k), -cap, cap)

    @compiled
    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        if abs(a) >= cap:
            return np.sign(a) * dcap
        return _smooth_tangent((z + k * a - y) / theta, 1.0 / theta, cap, k, dz, dcap)


# --- a user's own ----------------------------------------------------------------------------------------------------------


class User(Value, NamedTuple("_User", [])):
    """A user's convex loss of one score; :func:`loss` makes a class of its own for each."""

    __slots__ = ()
    targets = "reals"
    theta = math.nan
    written: tuple[Callable[..., float], Callable[..., float]]

    def __reduce__(self) -> tuple[Any, ...]:
        return loss, self.written

    def __eq__(self, other: object) -> bool:
        return isinstance(other, User) and self.written == other.written

    def __hash__(self) -> int:
        return hash(self.written)


def loss(value: Callable[[float, float], float], derivative: Callable[[float, float], float]) -> Any:
    """Make a loss of two plain Python functions, value(z, y) and derivative(z, y) in z; they are compiled at first use.

    The loss must be convex in z.  Its implicit step is found by a guarded root finder, kinks included; targets y may be any
    real numbers.

    >>> quartic = loss(lambda z, y: (z - y) ** 4, lambda z, y: 4 * (z - y) ** 3)
    >>> round(quartic.prox(0.0, 1.0, 0.0, 0.5, 1.0), 6)      # a = -0.5 * 4 (a - 1)^3
    0.410245
    """
    for name, function in (("value", value), ("derivative", derivative)):
        if not callable(function):
            raise TypeError(f"onkel.loss: {name} must be a function of (z, y); got {function!r}")
        try:
            inspect.signature(function).bind(0.0, 0.0)
        except TypeError:
            raise TypeError(f"onkel.loss: {name} must take two arguments, (z, y); got {function!r}") from None
    key = (value, derivative)
    if key not in _user_losses:
        _user_losses[key] = _user_loss(*key)
    return _user_losses[key]()


_user_losses: dict[Any, type[User]] = {}  # one class, one compilation for each pair of functions


def _user_loss(value: Callable[..., float], derivative: Callable[..., float]) -> type[User]:
    cost = compiled(value, cache=False)
    steep = compiled(derivative, cache=False)

    @compiled(cache=False)
    def _value(loss, f, y, theta):
        return float(cost(f, y))

    @compiled(cache=False)
    def _slope(loss, f, y, theta, tie):
        return float(steep(f, y))

    @compiled(cache=False)
    def _curvature(loss, f, y, theta):
        h = 1e-5 * max(1.0, abs(f))
        return max(0.0, (float(steep(f + h, y)) - float(steep(f - h, y))) / (2.0 * h))

    @compiled(cache=False)
    def _never(loss, f, y, theta, tie):
        return False

    @compiled(cache=False)
    def _mistake(loss, f, y, theta):
        return False

    @compiled(cache=False)
    def _prox(loss, z, y, theta, cap, k):
        """Root of the increasing a + cap slope(z + k a), between 0 and the explicit step: secants, bisection as a guard."""
        near, far = 0.0, -cap * float(steep(z, y))
        if far == 0.0 or k == 0.0 or not math.isfinite(far):
            return far
        g_near = -far
        g_far = far + cap * float(steep(z + k * far, y))
        if g_near * g_far >= 0.0:  # convexity puts the root between; equality only where the slope is flat
            return far
        side = 0
        for i in range(200):
            a = far - g_far * (far - near) / (g_far - g_near)
            middle = 0.5 * (near + far)
            if i % 3 == 2 or not min(near, far) < a < max(near, far):
                a = middle
            if abs(far - near) <= 4e-16 * abs(middle) or a == near or a == far:
                return a
            g = a + cap * float(steep(z + k * a, y))
            if g == 0.0:
                return a
            if g * g_far > 0.0:
                far, g_far = a, g
                if side == 1:
                    g_near *= 0.5
                side = 1
            else:
                near, g_near = a, g
                if side == -1:
                    g_far *= 0.5
                side = -1
        return a

    @compiled(cache=False)
    def _tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        if cap == 0.0:
            return -dcap * float(steep(z, y))
        u = z + k * a
        h = 1e-6 * max(1.0, abs(u))
        below, above = float(steep(u - h, y)), float(steep(u + h, y))
        return _smooth_tangent(-a / cap, max(0.0, (above - below) / (2.0 * h)), cap, k, dz, dcap)

    body = {
        "__slots__": (),
        "__doc__": f"A user's loss: {getattr(value, '__name__', value)} with {getattr(derivative, '__name__', derivative)}.",
        "__module__": __name__,
        "written": (value, derivative),
        "value": _value,
        "slope": _slope,
        "curvature": _curvature,
        "violated": _never,
        "mistake": _mistake,
        "prox": _prox,
        "tangent": _tangent,
    }
    return type("UserLoss", (User,), body)


# --- over labels -----------------------------------------------------------------------------------------------------------


@compiled(melt=True)
def rival(labels, scores, y, theta):
    """y* = argmax over z != y of theta Delta(y, z) + f(z), the lowest index on ties; -1 where y is the only label."""
    best, top = -1, -np.inf
    for z in range(scores.size):
        if z != y:
            reach = theta * labels.cost[y, z] + scores[z]
            if reach > top:
                best, top = z, reach
    return best


@compiled(melt=True)
def _tied_or_beaten(scores, y):
    found = False
    for z in range(scores.size):
        found |= (z != y) & (scores[z] >= scores[y])
    return found


@compiled
def _dual(labels, z, y, theta, k, extra, gain, M):
    """The exact dual: gain_z = theta Delta(y, z) + z_z - z_y,  M_zz' = <phi_y - phi_z, phi_y - phi_z'>, for z, z' other than y."""
    kappa = labels.kernel
    for i in range(z.size):
        gain[i] = theta * labels.cost[y, i] + z[i] - z[y]
        for j in range(z.size):
            M[i, j] = k * (kappa[y, y] - kappa[y, j] - kappa[i, y] + kappa[i, j]) + extra * (2.0 if i == j else 1.0)


@compiled
def _exact_prox(labels, z, y, theta, cap, k, extra, a):
    """The prox over all labels: a_z = -p_z and a_y = sum p, with p the solution of the dual."""
    gain, M = np.empty(z.size), np.empty((z.size, z.size))
    _dual(labels, z, y, theta, k, extra, gain, M)
    simplex_qp(M, gain, y, cap, a)
    total = 0.0
    for i in range(z.size):
        total += a[i]
        a[i] = -a[i]
    a[y] = total


class _Structured(NamedTuple):
    labels: Labels
    rho: float


class Structured(Value, _Structured):
    """max(0, max over z != y of [rho Delta(y, z) + f(z)] - f(y)); with flat labels the multiclass hinge.  [V] (25), [C] (19)

    The rival y* is taken at the scores before the step, lowest index on ties.  The implicit step of [C] moves y and y* alone;
    with ``exact`` it is the prox over all labels.
    """

    __slots__ = ()
    targets = "codes"

    def __new__(cls, labels: Labels, rho: float = 1.0) -> Structured:
        return super().__new__(cls, _as_labels("Structured", labels), _threshold("Structured", "rho", rho, positive=False))

    @property
    def theta(self) -> float:
        return self.rho

    @compiled(melt=True)
    def consider(loss, scores, y, theta):
        return rival(loss.labels, scores, y, theta)

    @compiled(melt=True)
    def value(loss, scores, y, theta, worst):
        return max(0.0, theta * loss.labels.cost[y, worst] + scores[worst] - scores[y]) if worst >= 0 else 0.0

    @compiled(melt=True)
    def slope(loss, scores, y, theta, worst, xi):
        """xi = +1 at y*, -1 at y where the margin is violated; returns the violation Delta(y, y*), else 0."""
        xi[:] = 0.0
        if worst < 0 or theta * loss.labels.cost[y, worst] + scores[worst] - scores[y] <= 0.0:
            return 0.0
        xi[worst] = 1.0
        xi[y] = -1.0
        return loss.labels.cost[y, worst]

    @compiled(melt=True)
    def curve(loss, scores, y, theta, v, chi):
        chi[:] = 0.0

    @compiled(melt=True)
    def mistake(loss, scores, y, theta):
        return _tied_or_beaten(scores, y)

    @compiled(melt=True)
    def prox(loss, z, y, theta, worst, cap, k, extra, exact, a):
        a[:] = 0.0
        if z.size == 1:
            return
        if exact:
            _exact_prox(loss.labels, z, y, theta, cap, k, extra, a)
            return
        kappa = loss.labels.kernel
        D = k * (kappa[y, y] + kappa[worst, worst] - 2.0 * kappa[y, worst]) + 2.0 * extra
        if D > 0.0:
            a[y] = clip((theta * loss.labels.cost[y, worst] + z[worst] - z[y]) / D, 0.0, cap)
            a[worst] = -a[y]

    @compiled
    def tangent(loss, z, y, theta, cap, k, extra, exact, a, dz, dcap, da):
        """On the labels that moved: they hold their gaps at zero together, or, at the cap, equal to each other."""
        da[:] = 0.0
        if a[y] <= 0.0:
            return
        m = z.size
        gain, M = np.empty(m), np.empty((m, m))
        _dual(loss.labels, z, y, theta, k, extra, gain, M)
        capped = a[y] >= cap * (1.0 - 1e-12)
        A, x = np.zeros((m + 1, m + 1)), np.empty(m + 1)
        moved = np.empty(m, np.int64)
        count = 0
        for i in range(m):
            if i != y and a[i] < 0.0:
                moved[count] = i
                count += 1
        for i in range(count):
            for j in range(count):
                A[i, j] = M[moved[i], moved[j]]
            A[i, count] = A[count, i] = 1.0
            x[i] = dz[moved[i]] - dz[y]
        x[count] = dcap
        if solve(A, x, count + 1 if capped else count):
            for i in range(count):
                da[moved[i]] = -x[i]
                da[y] += x[i]


class _Softmax(NamedTuple):
    labels: Labels


class Softmax(Value, _Softmax):
    """log sum_z exp f(z) - f(y): multinomial logistic loss; its Hessian diag(p) - p p' is not diagonal.  [V] (43), (44)"""

    __slots__ = ()
    targets = "codes"
    theta = math.nan

    def __new__(cls, labels: Labels) -> Softmax:
        return super().__new__(cls, _as_labels("Softmax", labels))

    @compiled
    def consider(loss, scores, y, theta):
        return y

    @compiled
    def value(loss, scores, y, theta, worst):
        top = scores.max()
        total = 0.0
        for z in range(scores.size):
            total += np.exp(scores[z] - top)
        return top + np.log(total) - scores[y]

    @compiled
    def slope(loss, scores, y, theta, worst, xi):
        softmax(scores, xi)
        xi[y] -= 1.0
        return 0.0

    @compiled
    def curve(loss, scores, y, theta, v, chi):
        softmax(scores, chi)
        mean = 0.0
        for z in range(scores.size):
            mean += chi[z] * v[z]
        for z in range(scores.size):
            chi[z] *= v[z] - mean

    @compiled
    def mistake(loss, scores, y, theta):
        return _tied_or_beaten(scores, y)

    @compiled
    def prox(loss, z, y, theta, worst, cap, k, extra, exact, a):
        K = k * loss.labels.kernel
        for i in range(z.size):
            K[i, i] += extra
        softmax_prox(z, y, cap, K, a)

    @compiled
    def tangent(loss, z, y, theta, cap, k, extra, exact, a, dz, dcap, da):
        """(I + cap H K) da = -(dcap xi + cap H dz), with xi and H at the new scores."""
        m = z.size
        K = k * loss.labels.kernel
        u, p, J = np.empty(m), np.empty(m), np.empty((m, m))
        for i in range(m):
            K[i, i] += extra
        for i in range(m):
            u[i] = z[i]
            for j in range(m):
                u[i] += K[i, j] * a[j]
        softmax(u, p)
        drift = 0.0
        for j in range(m):
            drift += p[j] * dz[j]
        for i in range(m):
            da[i] = -dcap * (p[i] - (1.0 if i == y else 0.0)) - cap * p[i] * (dz[i] - drift)
        for j in range(m):
            mean = 0.0
            for i in range(m):
                mean += p[i] * K[i, j]
            for i in range(m):
                J[i, j] = (1.0 if i == j else 0.0) + cap * p[i] * (K[i, j] - mean)
        solve(J, da, m)


def _as_labels(loss: str, labels: Any) -> Labels:
    if isinstance(labels, Labels):
        return labels
    raise TypeError(f"{loss}: labels must be onkel.Labels, for example Labels.flat(10); got {labels!r}")
