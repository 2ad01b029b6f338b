"""A fresh portfolio for real targets, or one with more columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onkel.core.portfolio.numbers import LAGS
from onkel.core.portfolio.parts import Combiner, Lines, Members, Numbers, Points, Record, Target, Views


class Kernel(NamedTuple):
    """A member on the shared points."""

    laplace: int
    raw: int
    width: float
    C: float
    lags: int
    aim: int  # 0: the target, 1 and 2: what the first and second line leave over


FULL = (
    Kernel(0, 0, 0.4, 0.5, 0, 0),
    Kernel(0, 0, 0.4, 0.5, 1, 0),
    Kernel(0, 0, 0.4, 0.5, 1, 2),
    Kernel(1, 0, 0.5, 0.5, 0, 0),
    Kernel(1, 0, 0.5, 0.5, 1, 0),
    Kernel(1, 0, 1.0, 2.0, 0, 0),
    Kernel(1, 0, 1.0, 2.0, 1, 0),
    Kernel(1, 1, 0.5, 0.5, 0, 0),
    Kernel(1, 1, 0.5, 0.5, 1, 0),
    Kernel(1, 0, 0.5, 0.5, 0, 1),
    Kernel(1, 0, 0.5, 0.5, 1, 2),
)
SMALL = (FULL[3], FULL[9], FULL[10])
LINES = ((0, 1.0), (1, 1.0), (1, 0.5 ** (1.0 / 2000.0)))  # sees earlier targets, keeps
LAM, RATE = 1e-6, 0.005
MOST, LEAST = 1024, 8


class Plan(NamedTuple):
    """What a portfolio consists of."""

    kernels: tuple[Kernel, ...]
    lines: tuple[tuple[int, float, bool], ...]  # sees earlier targets, keeps, has a matrix
    places: int
    notes: int
    lags: int
    least: int  # bytes that would do


def plan(budget: int, d: int, small: bool, past: bool) -> Plan:
    """How ``budget`` bytes are shared out over d columns: matrices take at most a third."""
    lags = LAGS if past else 0
    kernels = tuple(k for k in (SMALL if small else FULL) if past or not k.lags)
    used, lines = 0, []
    for sees, keep in LINES if past else LINES[:1]:
        n = d + 1 + lags * sees
        whole = used + 8 * n * n <= budget // 3
        used += 8 * n * n if whole else 8 * n
        lines.append((sees, keep, whole))
    notes = int(min(max(budget // 4096, 4), 32))
    base = used + fixed(d + lags, len(kernels), len(lines), notes)
    point = d + lags + 2 * len(kernels) + 4
    slim = fixed(d + lags, len(kernels), len(lines), 4) + 24 * (d + 3) + LEAST * point
    return Plan(kernels, tuple(lines), int(min(MOST, (budget - base) // point)), notes, lags, slim)


def fixed(d: int, kernels: int, lines: int, notes: int) -> int:
    """Bytes of what does not depend on the number of points, and a little more."""
    E = kernels + lines + 1
    columns = d * (64 + 4 * kernels) + 8 * (d + 1) * lines
    return columns + 8 * E * E + 40 * E + 88 * kernels + 32 * lines + notes * (8 * E + 24) + 500


def numbers(d: int, of: Plan) -> Numbers:
    """Nothing learned yet."""
    f32, i64, M, d = np.float32, np.int64, len(of.kernels), d + of.lags
    table = np.array(of.kernels, float)
    kinds = table.astype(i64)
    members = Members(
        kinds[:, 0].copy(), kinds[:, 1].copy(), table[:, 2].copy(), table[:, 3].copy(), np.full(M, 1.0 / (1.0 + LAM)),
        np.full(M, RATE), np.arange(M), kinds[:, 4].copy(), kinds[:, 5].copy(),
    )  # fmt: skip
    views = Views(
        np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.ones(d, i64), np.zeros(d, i64), np.zeros(d), np.ones(d),
        np.full(4, float(max(d, 1))), np.array([0, 0, 1], i64),
    )  # fmt: skip
    points = Points(
        np.zeros((d, of.places), np.int8), np.zeros((M, 1, of.places), np.uint16), np.zeros(of.places, f32), np.ones(M),
        np.zeros((M, d), f32), np.zeros(M),
    )  # fmt: skip
    sees, keep, whole = ([line[i] for line in of.lines] for i in range(3))
    sizes = np.array([d - of.lags + 1 + of.lags * s for s in sees], i64)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(i64)
    doubts = np.where(whole, sizes * sizes, sizes)
    doubt = np.concatenate([[0], np.cumsum(doubts)]).astype(i64)
    matrix = np.ones(doubt[-1])
    for n, at, full in zip(sizes, doubt, whole):
        if full:
            matrix[at : at + n * n] = np.eye(n).ravel()
    lines = Lines(
        np.array(whole, i64), np.array(sees, i64), np.array(keep, float), start, doubt[:-1].copy(), np.zeros(start[-1]), matrix
    )
    E = M + len(of.lines) + (of.lags > 0)
    combiner = Combiner(np.zeros(0), np.zeros(0), np.full(E, 1.0 / E), np.zeros((E, E)), np.full(E + 1, 1.0 / (E + 1)))
    target = Target(np.array([0.0, 0.0, 0.0, 0.0, 1.0, np.nan, np.nan]), np.zeros(3))
    record = Record(
        np.array([0, 32, 32], i64), np.zeros(of.notes, i64), np.zeros((of.notes, E), f32), np.zeros(E + 3),
        np.zeros((of.notes, E + 3), f32),
    )  # fmt: skip
    return Numbers(members, views, points, lines, combiner, target, record)


def names(of: Plan) -> list[str]:
    """What the members are called."""
    over = ("", ", over a line", ", over a line with last values")
    kernels = [
        f"{('Gaussian', 'Laplace')[k.laplace]} {k.width:g} {('scaled', 'raw')[k.raw]}{' with last values' * k.lags}, C {k.C:g}"
        f"{over[k.aim]}" for k in of.kernels
    ]  # fmt: skip
    lines = ["least squares" + " with last values" * sees + ", forgetting" * (keep < 1) for sees, keep, _ in of.lines]
    return [*kernels, *lines, *["last value"] * (of.lags > 0)]


# --- more columns ----------------------------------------------------------------------------------------------------------------


def grown(old: Numbers, was: Plan, d0: int, d: int, of: Plan) -> Numbers:
    """The same portfolio with room for more columns: what still fits is kept, the heaviest points first."""
    new = numbers(d, of)
    here = np.array([*range(d0), *range(d, d + of.lags)])  # earlier targets stay behind the columns
    for name in Views._fields[:-2]:
        getattr(new.views, name)[here] = getattr(old.views, name)
    new.views.median[:] = old.views.median
    held = int(old.views.count[1])
    n = min(held, of.places)
    new.views.count[:] = old.views.count
    new.views.count[1] = n
    kept = np.sort(np.argsort(-old.points.heft[:held], kind="stable")[:n])
    new.points.code[here, :n] = old.points.code[:, kept]
    new.points.heft[:n] = old.points.heft[kept]
    new.points.coef[:, :, :n] = old.points.coef[:, :, kept]
    new.points.fade[:], new.points.rms[:] = old.points.fade, old.points.rms
    new.points.bend[:, here] = old.points.bend
    for i, (sees, _, whole) in enumerate(of.lines):
        at = np.array([*range(d0), *range(d, d + of.lags * sees), d + of.lags * sees])
        n0, n1 = len(at), int(new.lines.start[i + 1] - new.lines.start[i])
        new.lines.weight[new.lines.start[i] + at] = old.lines.weight[old.lines.start[i] : old.lines.start[i + 1]]
        before = old.lines.matrix[old.lines.doubt[i] :][: n0 * n0 if was.lines[i][2] else n0]
        full = before.reshape(n0, n0) if was.lines[i][2] else np.diag(before)
        into = new.lines.matrix[new.lines.doubt[i] :]
        if whole:
            into[: n1 * n1].reshape(n1, n1)[np.ix_(at, at)] = full
        else:
            into[at] = np.diag(full)
    for name in ("stack", "hessian", "share"):
        getattr(new.combiner, name)[:] = getattr(old.combiner, name)
    new.target.moments[:], new.target.radius[:] = old.target.moments, old.target.radius
    lines = min(int(old.record.count[0]), of.notes)
    new.record.count[:] = (lines, *old.record.count[1:])
    for name in ("row", "weight", "path"):
        getattr(new.record, name)[:lines] = getattr(old.record, name)[:lines]
    new.record.wrong[:] = old.record.wrong
    return new
