"""Losses over labels: m scores at once, and labels that may have to do with each other.

They have, compiled, what a loss of one score has (losses.py), on vectors, with y a label, theta the margin, and k kappa + extra I
where one score has k alone (kappa: the label kernel, extra: an offset's share):

    consider(scores, y, theta)                             the label that the others ask for, y*, as ``worst`` below
    value(scores, y, theta, worst)                         the cost
    slope(scores, y, theta, worst, xi)                     its derivative into xi; returns by how much the margin is violated
    curve(scores, y, theta, v, chi)                        Hessian times v into chi
    prox(z, y, theta, worst, cap, k, extra, a)             the implicit step's coefficients into a
    exact_prox(z, y, theta, cap, k, extra, a)              the same over all labels, where ``prox`` is a shorter step, else None
    tangent(..., a, dz, dcap, da)                          how they move when z and cap move by dz and dcap, into da

The last two are long and rarely asked for: they are compiled apart, the loop knows their addresses, and they return how many labels
there are.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from onkel.core.machine.compiled import inner
from onkel.core.machine.numbers import larger
from onkel.core.maths.labels import Labels
from onkel.core.maths.losses import Hinge, Logistic, Loss, OneScore, Threshold
from onkel.core.maths.prox import clip, simplex_qp, softmax, softmax_prox, solve
from onkel.core.maths.value import DEFINED, field, number


def _labels(owner: str, name: str, given: Any) -> Labels:
    if isinstance(given, Labels):
        return given
    raise TypeError(f"{owner}: {name} must be onkel.Labels, for example Labels.flat(10); got {given!r}")


class Labelled(Loss, abstract=True):
    """Losses over labels.  ``like`` is the loss of one score that they are for more than two classes, or None."""

    labels: Labels = field(check=_labels)

    formulas: ClassVar = {
        **{name: {} for name in ("consider", "value", "slope", "curve", "mistake", "prox")},
        **{name: {"apart": True} for name in ("exact_prox", "tangent")},
    }
    asked: ClassVar = {
        **Loss.asked,
        **dict.fromkeys(formulas, "a function, as onkel/core/maths/labelled.py lists it"),
        "like": "the loss of one score that it extends, or None",
    }
    targets = "codes"
    labelled = True
    exact_prox: ClassVar[Any] = None
    like: ClassVar[type[OneScore] | None]

    @classmethod
    def over(cls, labels: Labels, one: Any = None) -> Any:
        """The loss over these labels, with the parameters of ``one``, a value of the class ``like``."""
        return cls(labels, *(one or ()))  # type: ignore[call-arg]


def over_labels(loss: Any, labels: Labels) -> Any:
    """What a classifier means by a loss: the name of one over labels, such a class, or a loss of one score that one is like.

    None where it means nothing.

    >>> over_labels("hinge", Labels.flat(3)) == over_labels(Hinge(1.0), Labels.flat(3)) == Structured(Labels.flat(3), 1.0)
    True
    """
    for cls in DEFINED.values():
        if issubclass(cls, Labelled) and (cls is loss or (cls.name == loss if isinstance(loss, str) else cls.like is type(loss))):
            return cls.over(labels, loss if isinstance(loss, OneScore) else None)
    return None


@inner(inlined=True)
def rival(labels, scores, y, theta):
    """y* = argmax over z != y of theta Delta(y, z) + f(z), the lowest index on ties; -1 where y is the only label."""
    best, top = -1, -np.inf
    for z in range(scores.size):
        if z != y:
            reach = theta * labels.cost[y, z] + scores[z]
            if reach > top:
                best, top = z, reach
    return best


@inner(inlined=True)
def _tied_or_beaten(scores, y):
    found = False
    for z in range(scores.size):
        found |= (z != y) & (scores[z] >= scores[y])
    return found


@inner
def _dual(labels, z, y, theta, k, extra, gain, M):
    """The exact dual: gain_z = theta Delta(y, z) + z_z - z_y,  M_zz' = <phi_y - phi_z, phi_y - phi_z'>, for z, z' other than y."""
    kappa = labels.kernel
    for i in range(z.size):
        gain[i] = theta * labels.cost[y, i] + z[i] - z[y]
        for j in range(z.size):
            M[i, j] = k * (kappa[y, y] - kappa[y, j] - kappa[i, y] + kappa[i, j]) + extra * (2.0 if i == j else 1.0)


class Structured(Labelled):
    """max(0, max over z != y of [rho Delta(y, z) + f(z)] - f(y)); with flat labels the multiclass hinge.  [V] (25), [C] (19)

    The rival y* is taken at the scores before the step, lowest index on ties.  The implicit step of [C] moves y and y* alone;
    with ``exact`` it is the prox over all labels.
    """

    rho: float = number(1.0, low=0)

    name = "hinge"
    like = Hinge
    theta = Threshold("rho")
    stores_all = False
    cuda: ClassVar = {"moves": "a label and its rival", "prox": "of the two"}

    @inner(inlined=True)
    def consider(loss, scores, y, theta):
        return rival(loss.labels, scores, y, theta)

    @inner(inlined=True)
    def value(loss, scores, y, theta, worst):
        return larger(0.0, theta * loss.labels.cost[y, worst] + scores[worst] - scores[y]) if worst >= 0 else 0.0

    @inner(inlined=True)
    def slope(loss, scores, y, theta, worst, xi):
        """xi = +1 at y*, -1 at y where the margin is violated; returns the violation Delta(y, y*), else 0."""
        xi[:] = 0.0
        if worst < 0 or theta * loss.labels.cost[y, worst] + scores[worst] - scores[y] <= 0.0:
            return 0.0
        xi[worst] = 1.0
        xi[y] = -1.0
        return loss.labels.cost[y, worst]

    @inner(inlined=True)
    def curve(loss, scores, y, theta, v, chi):
        chi[:] = 0.0

    @inner(inlined=True)
    def mistake(loss, scores, y, theta):
        return _tied_or_beaten(scores, y)

    @inner(inlined=True)
    def prox(loss, z, y, theta, worst, cap, k, extra, a):
        a[:] = 0.0
        if z.size == 1:
            return
        kappa = loss.labels.kernel
        D = k * (kappa[y, y] + kappa[worst, worst] - 2.0 * kappa[y, worst]) + 2.0 * extra
        if D > 0.0:
            a[y] = clip((theta * loss.labels.cost[y, worst] + z[worst] - z[y]) / D, 0.0, cap)
            a[worst] = -a[y]

    def exact_prox(loss, z, y, theta, cap, k, extra, a):
        """The prox over all labels: a_z = -p_z and a_y = sum p, with p the solution of the dual."""
        m = z.size
        a[:] = 0.0
        if m > 1:
            gain, M = np.empty(m), np.empty((m, m))
            _dual(loss.labels, z, y, theta, k, extra, gain, M)
            simplex_qp(M, gain, y, cap, a)
            total = 0.0
            for i in range(m):
                total += a[i]
                a[i] = -a[i]
            a[y] = total
        return m

    def tangent(loss, z, y, theta, cap, k, extra, a, dz, dcap, da):
        """On the labels that moved: they hold their gaps at zero together, or, at the cap, equal to each other."""
        da[:] = 0.0
        m = z.size
        if a[y] <= 0.0:
            return m
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
        return m


class Softmax(Labelled):
    """log sum_z exp f(z) - f(y): multinomial logistic loss; its Hessian diag(p) - p p' is not diagonal.  [V] (43), (44)"""

    name = "logistic"
    like = Logistic
    theta = Threshold(None)
    stores_all = True
    cuda: ClassVar = {"moves": "all"}

    @inner
    def consider(loss, scores, y, theta):
        return y

    @inner
    def value(loss, scores, y, theta, worst):
        top = scores.max()
        total = 0.0
        for z in range(scores.size):
            total += np.exp(scores[z] - top)
        return top + np.log(total) - scores[y]

    @inner
    def slope(loss, scores, y, theta, worst, xi):
        softmax(scores, xi)
        xi[y] -= 1.0
        return 0.0

    @inner
    def curve(loss, scores, y, theta, v, chi):
        softmax(scores, chi)
        mean = 0.0
        for z in range(scores.size):
            mean += chi[z] * v[z]
        for z in range(scores.size):
            chi[z] *= v[z] - mean

    @inner
    def mistake(loss, scores, y, theta):
        return _tied_or_beaten(scores, y)

    @inner
    def prox(loss, z, y, theta, worst, cap, k, extra, a):
        K = k * loss.labels.kernel
        for i in range(z.size):
            K[i, i] += extra
        softmax_prox(z, y, cap, K, a)

    def tangent(loss, z, y, theta, cap, k, extra, a, dz, dcap, da):
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
        return m
