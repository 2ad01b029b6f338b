"""Losses of one score and losses over labels, made to look the same to the loop.

A vector of scores is a place in ``num`` (layout.py) together with its length m.  Each function below is chosen for the type of
the loss when the loop is compiled: for one score it reads and writes a single number there, for labels it passes views on.
"""

from __future__ import annotations

from typing import Any

from numba.core import types

from onkel.core.machine.calls import jumper
from onkel.core.machine.compiled import overload
from onkel.core.machine.numbers import larger, whole


def _one(cls: Any) -> bool:
    return not cls.labelled


def outputs(loss, answers):
    """How many scores: for the losses of one a constant, so that its loops go away."""


@overload(outputs)
def _outputs(loss, answers):
    if _one(loss.instance_class):
        return lambda loss, answers: 1
    return lambda loss, answers: answers.shape[1]


def coefficient_rows(traced, m):
    """How many rows of slots hold coefficients: those of f, and behind them the trace's."""


@overload(coefficient_rows)
def _coefficient_rows(traced, m):
    if isinstance(traced, types.NoneType):
        return lambda traced, m: m
    return lambda traced, m: 2 * m


def consider(loss, num, scores, m, y, theta):
    """The rival label y*, where there is one."""


@overload(consider)
def _consider(loss, num, scores, m, y, theta):
    if _one(loss.instance_class):
        return lambda loss, num, scores, m, y, theta: 0
    f = loss.instance_class.consider
    return lambda loss, num, scores, m, y, theta: f(loss, num[scores : scores + m], whole(y), theta)


def value(loss, num, scores, m, y, theta, worst):
    """Cost of the scores."""


@overload(value)
def _value(loss, num, scores, m, y, theta, worst):
    f = loss.instance_class.value
    if _one(loss.instance_class):
        return lambda loss, num, scores, m, y, theta, worst: f(loss, num[scores], y, theta)
    return lambda loss, num, scores, m, y, theta, worst: f(loss, num[scores : scores + m], whole(y), theta, worst)


def mistake(loss, num, scores, m, y, theta):
    """Whether the scores count as a mistake: ties do."""


@overload(mistake)
def _mistake(loss, num, scores, m, y, theta):
    f = loss.instance_class.mistake
    if _one(loss.instance_class):
        return lambda loss, num, scores, m, y, theta: f(loss, num[scores], y, theta)
    return lambda loss, num, scores, m, y, theta: f(loss, num[scores : scores + m], whole(y), theta)


def slope(loss, num, scores, m, y, theta, worst, tie, xi):
    """Derivative into xi; returns by how much the margin is violated."""


@overload(slope)
def _slope(loss, num, scores, m, y, theta, worst, tie, xi):
    f = loss.instance_class.slope
    if not _one(loss.instance_class):
        return lambda loss, num, scores, m, y, theta, worst, tie, xi: f(
            loss, num[scores : scores + m], whole(y), theta, worst, num[xi : xi + m]
        )
    violated = loss.instance_class.violated

    def one(loss, num, scores, m, y, theta, worst, tie, xi):
        num[xi] = f(loss, num[scores], y, theta, tie)
        return 1.0 if violated(loss, num[scores], y, theta, tie) else 0.0

    return one


def curve(loss, num, scores, m, y, theta, v, chi):
    """chi = Hessian times v."""


@overload(curve)
def _curve(loss, num, scores, m, y, theta, v, chi):
    if not _one(loss.instance_class):
        f = loss.instance_class.curve
        return lambda loss, num, scores, m, y, theta, v, chi: f(
            loss, num[scores : scores + m], whole(y), theta, num[v : v + m], num[chi : chi + m]
        )
    g = loss.instance_class.curvature

    def one(loss, num, scores, m, y, theta, v, chi):
        num[chi] = g(loss, num[scores], y, theta) * num[v]

    return one


_exact, _tangent_at = jumper("exact prox"), jumper("tangent")


def prox(loss, num, z, m, y, theta, worst, cap, k, extra, exact, a):
    """Implicit coefficient into a: z are the decayed scores; k kappa + extra I is the curvature.  ``exact`` is 0, or the address of
    the exact step where ``prox`` is a shorter one."""


@overload(prox)
def _prox(loss, num, z, m, y, theta, worst, cap, k, extra, exact, a):
    cls = loss.instance_class
    f = cls.prox
    if _one(cls):

        def one(loss, num, z, m, y, theta, worst, cap, k, extra, exact, a):
            num[a] = f(loss, num[z], y, theta, cap, k + extra)

        return one
    if cls.exact_prox is None:
        return lambda loss, num, z, m, y, theta, worst, cap, k, extra, exact, a: f(
            loss, num[z : z + m], whole(y), theta, worst, cap, k, extra, num[a : a + m]
        )

    def either(loss, num, z, m, y, theta, worst, cap, k, extra, exact, a):
        if exact != 0.0:
            _exact(whole(exact), (loss, num[z : z + m], whole(y), theta, cap, k, extra, num[a : a + m]))
        else:
            f(loss, num[z : z + m], whole(y), theta, worst, cap, k, extra, num[a : a + m])

    return either


def tangent(loss, num, z, m, y, theta, cap, k, extra, where, a, dz, dcap, da):
    """How the implicit coefficient moves when z moves by dz and the cap by dcap; for labels the code stands at ``where``."""


@overload(tangent)
def _tangent(loss, num, z, m, y, theta, cap, k, extra, where, a, dz, dcap, da):
    f = loss.instance_class.tangent
    if not _one(loss.instance_class):

        def many(loss, num, z, m, y, theta, cap, k, extra, where, a, dz, dcap, da):
            vectors = num[z : z + m], num[a : a + m], num[dz : dz + m], num[da : da + m]
            _tangent_at(whole(where), (loss, vectors[0], whole(y), theta, cap, k, extra, vectors[1], vectors[2], dcap, vectors[3]))

        return many

    def one(loss, num, z, m, y, theta, cap, k, extra, where, a, dz, dcap, da):
        num[da] = f(loss, num[z], y, theta, cap, k + extra, num[a], num[dz], dcap)

    return one


def convex(loss, num, scores, y, theta):
    """A cheap look whether a doubtful loss can be convex here: its slope must not fall, nor its value undercut the tangent."""


@overload(convex)
def _convex(loss, num, scores, y, theta):
    cls = loss.instance_class
    if not cls.doubtful:
        return lambda loss, num, scores, y, theta: True
    cost, steep = cls.value, cls.slope

    def look(loss, num, scores, y, theta):
        f = num[scores]
        h = 0.01 * larger(1.0, abs(f))
        here, there = steep(loss, f, y, theta, False), steep(loss, f + h, y, theta, False)
        low, high = cost(loss, f, y, theta), cost(loss, f + h, y, theta)
        room = 1e-6 * (abs(here) + abs(there)) + 1e-9
        slack = room * h + 1e-9 * abs(low)
        return here <= there + room and low + here * h <= high + slack and high <= low + there * h + slack

    return look


def tube(loss):
    """Whether theta is a tube's width, which grows with violations, or a margin, which shrinks with them."""


@overload(tube)
def _tube(loss):
    is_tube = loss.instance_class.theta.tube
    return lambda loss: is_tube


def lowest_theta(loss):
    """How far theta may fall: margins and tubes may close, unless the loss says otherwise."""


@overload(lowest_theta)
def _lowest_theta(loss):
    low = loss.instance_class.theta.lowest
    return lambda loss: low
