"""A fresh portfolio, or one with more classes or columns: which members there are, and how its bytes are shared out.

Primal members take at most a third of the bytes, in the order below, each if it fits.  The rest are points, up to 1024, and as
many kernel members as leave 250 points and 20 for each class; where fewer than 140 points fit, half of their room goes to a
member on random features.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onkel.core.portfolio.parts import Combiner, Linear, Members, Past, Points, Portfolio, Record, Views


class Kernel(NamedTuple):
    """A member on the shared points."""

    laplace: int
    raw: int
    width: float
    C: float
    lam: float
    rate: float  # of the learned widths


class Line(NamedTuple):
    """A member in primal weights."""

    arow: int
    view: int
    C: float  # of PA; r of AROW


FULL = (
    Kernel(0, 0, 0.2, 0.2, 1e-6, 0.0),
    Kernel(0, 1, 0.2, 0.5, 1e-3, 0.0),
    Kernel(0, 0, 0.4, 0.5, 1e-6, 0.005),
    Kernel(0, 1, 0.4, 0.2, 1e-6, 0.002),
    Kernel(1, 0, 0.5, 0.5, 1e-6, 0.005),
    Kernel(1, 0, 0.5, 2.5, 1e-6, 0.005),
    Kernel(1, 1, 0.5, 0.5, 1e-6, 0.005),
    Kernel(1, 0, 0.5, 0.5, 1e-3, 0.005),
)
SMALL = (FULL[2], FULL[3], FULL[4], FULL[6])
PAIR = (FULL[2], FULL[4])
LINES = (Line(1, 0, 1.0), Line(0, 0, 1.0), Line(0, 1, 1.0), Line(1, 2, 1.0), Line(0, 0, 0.1), Line(0, 2, 1.0))
DRAWN = Line(1, 3, 1.0)
MOST, ENOUGH, EACH, FEW, LEAST = 1024, 250, 20, 140, 8  # points


class Plan(NamedTuple):
    """What a portfolio consists of."""

    kernels: tuple[Kernel, ...]
    lines: tuple[Line, ...]
    places: int
    features: int
    chain: bool
    notes: int
    least: int  # bytes that would do


def plan(budget: int, d: int, classes: int, small: bool, past: bool) -> Plan:
    """How ``budget`` bytes are shared out over d columns and so many classes."""
    Q = outputs(classes)
    lines: list[Line] = []
    used = 0
    for line in LINES[:3] if small else LINES:
        cost = 4 * length(line.view, d, classes) * (Q + line.arow) + 40
        if (past or line.view != 2) and used + cost <= budget // 3:
            lines.append(line)
            used += cost
    chain = past and 4 * classes * classes <= budget // 20
    notes = int(min(max(budget // 4096, 4), 32))
    for kernels in (SMALL, PAIR) if small else (FULL, SMALL, PAIR):
        base = fixed(d, classes, kernels, len(lines), chain, notes)
        point = d + 2 * len(kernels) * Q + 4
        places = (budget - used - base) // point
        if places >= max(ENOUGH, EACH * classes):
            break
    D = 0
    if places < FEW and not small:
        D = max(int((budget - used - base) // 2 // (4 * (Q + 1))), 0)
        places = (budget - used - base - 4 * D * (Q + 1)) // point
    least = fixed(d, classes, PAIR, 0, chain, 4) + LEAST * (d + 4 * Q + 4)
    return Plan(kernels, tuple(lines) + (DRAWN,) * (D > 0), int(min(MOST, places)), D, chain, notes, int(least))


def fixed(d: int, classes: int, kernels: tuple[Kernel, ...], lines: int, chain: bool, notes: int) -> int:
    """Bytes of what does not depend on the number of points, and a little more."""
    E = len(kernels) + lines + 3
    learned = sum(row.rate > 0 for row in kernels)
    labels = 24 * classes + 4 * classes * classes * chain
    return 64 * d + 4 * d * learned + 8 * E * E + 40 * E + labels + 80 * len(kernels) + notes * (8 * E + 24) + 400


def outputs(classes: int) -> int:
    return 1 if classes <= 2 else classes


def length(view: int, d: int, classes: int) -> int:
    return d + 1 + (2 * classes if view == 2 else 0)


def portfolio(d: int, classes: int, of: Plan) -> Portfolio:
    """Nothing learned yet."""
    f32, i64, Q, M = np.float32, np.int64, outputs(classes), len(of.kernels)
    table = np.array(of.kernels, float)
    learned = table[:, 5] > 0
    kinds = table[:, :2].astype(i64)
    members = Members(
        kinds[:, 0].copy(), kinds[:, 1].copy(), table[:, 2].copy(), table[:, 3].copy(), 1.0 / (1.0 + table[:, 4]),
        table[:, 5].copy(), np.where(learned, np.cumsum(learned) - 1, 0).astype(i64), np.zeros(M, i64), np.zeros(M, i64),
    )  # fmt: skip
    views = Views(
        np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.ones(d, i64), np.zeros(d, i64), np.zeros(d), np.ones(d),
        np.full(4, float(max(d, 1))), np.array([0, 0, 1], i64),
    )  # fmt: skip
    points = Points(
        np.zeros((d, of.places), np.int8), np.zeros((M, Q, of.places), np.uint16), np.zeros(of.places, f32), np.ones(M),
        np.zeros((int(learned.sum()), d), f32), np.zeros(M),
    )  # fmt: skip
    lengths = np.array([of.features if line.view == 3 else length(line.view, d, classes) for line in of.lines], i64)
    arow = np.array([line.arow for line in of.lines], i64)
    start = np.concatenate([[0], np.cumsum(lengths * (Q + arow))]).astype(i64)
    weight = np.zeros(start[-1], f32)
    for a, b, n in zip(arow, start, lengths):
        weight[b + Q * n : b + (Q + a) * n] = 1.0
    sees, cap = np.array([line.view for line in of.lines], i64), np.array([line.C for line in of.lines], float)
    linear = Linear(arow, sees, cap, start[:-1].copy(), lengths, weight, np.zeros(1))
    E = M + len(of.lines) + 1 + of.chain
    combiner = Combiner(np.zeros(E), np.zeros(E), np.full(E, 1.0 / E), np.zeros((E, E)), np.full(E + 1, 1.0 / (E + 1)))
    width = classes if of.chain else 0
    past = Past(np.zeros(classes), np.zeros((width, width), f32), np.zeros((2, classes)), np.array([-1.0, 1.0]))
    record = Record(
        np.array([0, 32, 32], i64), np.zeros(of.notes, i64), np.zeros((of.notes, E), f32), np.zeros(E + 3),
        np.zeros((of.notes, E + 3), f32),
    )  # fmt: skip
    return Portfolio(members, views, points, linear, combiner, past, record)


def nbytes(part: Any) -> int:
    return sum(nbytes(p) for p in part) if isinstance(part, tuple) else int(part.nbytes)


def names(of: Plan) -> list[str]:
    """What the members are called."""
    sees = ("scaled", "raw", "scaled and past", "random features")
    kernels = [
        f"{('Gaussian', 'Laplace')[k.laplace]} {k.width:g} {sees[k.raw]}, C {k.C:g}"
        + (f", lam {k.lam:g}" if k.lam > 1e-5 else "") + (", learned" if k.rate else "")
        for k in of.kernels
    ]  # fmt: skip
    lines = ["AROW " + sees[k.view] if k.arow else f"PA {sees[k.view]}, C {k.C:g}" for k in of.lines]
    return [*kernels, *lines, "prior", *["chain of labels"] * of.chain]


# --- more classes, more columns ------------------------------------------------------------------------------------------------


def grown(old: Portfolio, was: Plan, d: int, classes: int, of: Plan) -> Portfolio:
    """The same portfolio with room for more: what still fits is kept, the heaviest points first."""
    new = portfolio(d, classes, of)
    d0, classes0 = len(old.views.mean), len(old.past.prior)
    for name in Views._fields[:-2]:
        getattr(new.views, name)[:d0] = getattr(old.views, name)
    new.views.plain[d0:] = 1
    new.views.median[:] = old.views.median
    n, n0 = min(int(old.views.count[1]), of.places), int(old.views.count[1])
    new.views.count[:] = old.views.count
    new.views.count[1] = n
    kept = np.sort(np.argsort(-old.points.heft[:n0], kind="stable")[:n])
    new.points.code[:d0, :n] = old.points.code[:, kept]
    new.points.heft[:n] = old.points.heft[kept]
    for i, kernel in enumerate(of.kernels):
        if kernel not in was.kernels:
            continue
        j = was.kernels.index(kernel)
        new.points.coef[i, :, :n] = _spread(old.points.coef[j][:, kept], outputs(classes), np.uint16(0x8000))
        new.points.fade[i], new.points.rms[i] = old.points.fade[j], old.points.rms[j]
        if kernel.rate > 0:
            new.points.bend[new.members.place[i], :d0] = old.points.bend[old.members.place[j]]
    Q0, Q = outputs(classes0), outputs(classes)
    for i, line in enumerate(of.lines):
        if line not in was.lines:
            continue
        j = was.lines.index(line)
        n0, n1 = int(old.linear.length[j]), int(new.linear.length[i])
        rows = Q0 + line.arow
        w = old.linear.weight[old.linear.start[j] :][: rows * n0].reshape(rows, n0)
        into = new.linear.weight[new.linear.start[i] :][: (Q + line.arow) * n1].reshape(-1, n1)
        if line.view == 3:
            there, here = slice(0, min(n0, n1)), slice(0, min(n0, n1))
            factor = np.float32(math.sqrt(n1 / n0))  # features are smaller the more there are
        else:
            there, here = _positions(line.view, d0, classes0, d0, classes0), _positions(line.view, d0, classes0, d, classes)
            factor = np.float32(1.0)
        into[:Q, here] = _spread(w[:Q0], Q, None)[:, there] * factor
        if line.arow:
            into[Q, here] = w[Q0, there]
    new.linear.power[:] = old.linear.power
    before, after = _experts(was), _experts(of)
    stay = [(after.index(e), before.index(e)) for e in before if e in after]
    to, from_ = np.array([a for a, _ in stay]), np.array([b for _, b in stay])
    for name in ("slope", "curve"):
        getattr(new.combiner, name)[to] = getattr(old.combiner, name)[from_]
    new.combiner.stack[:] = 0.0
    new.combiner.stack[to] = old.combiner.stack[from_]
    new.combiner.hessian[np.ix_(to, to)] = old.combiner.hessian[np.ix_(from_, from_)]
    new.combiner.share[to] = old.combiner.share[from_]
    new.combiner.share[-1] = old.combiner.share[-1]
    new.combiner.share[:] /= new.combiner.share.sum()
    new.past.prior[:classes0], new.past.recent[:, :classes0] = old.past.prior, old.past.recent
    new.past.last[:] = old.past.last
    if of.chain and was.chain:
        new.past.chain[:classes0, :classes0] = old.past.chain
    lines = min(int(old.record.count[0]), of.notes)
    new.record.count[:] = (lines, *old.record.count[1:])
    new.record.row[:lines] = old.record.row[:lines]
    new.record.weight[:lines, to] = old.record.weight[:lines, from_]
    E0, E = len(before), len(after)
    to, from_ = np.append(to, [E, E + 1, E + 2]), np.append(from_, [E0, E0 + 1, E0 + 2])
    new.record.wrong[to] = old.record.wrong[from_]
    new.record.path[:lines, to] = old.record.path[:lines, from_]
    return new


def _experts(of: Plan) -> list[Any]:
    return [*of.kernels, *of.lines, "prior", *["chain"] * of.chain]


def _positions(view: int, d0: int, classes0: int, d: int, classes: int) -> Any:
    """Where a line's inputs of d0 columns and classes0 classes stand among those of d and classes."""
    at = [*range(d0), d]
    if view == 2:
        at += [*range(d + 1, d + 1 + classes0), *range(d + 1 + classes, d + 1 + classes + classes0)]
    return np.array(at)


def _spread(rows: Any, Q: int, sign: Any) -> Any:
    """The outputs of ``rows`` among Q of them; one output for two classes becomes two."""
    out = np.zeros((Q, rows.shape[1]), rows.dtype)
    if len(rows) == 1 and Q > 1:
        out[0] = -rows[0] if sign is None else rows[0] ^ sign
        out[1] = rows[0]
    else:
        out[: len(rows)] = rows
    return out
