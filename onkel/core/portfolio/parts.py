"""What a portfolio consists of, as named tuples of arrays: compiled functions take them as they are, files keep them by name."""

from __future__ import annotations

from typing import Any, NamedTuple


class Members(NamedTuple):
    """The kernel members, fixed from the first row on; Gaussian ones come first."""

    laplace: Any  # 0 Gaussian, 1 Laplace in L1
    raw: Any  # 0: columns as the view scales them, 1: columns as they came
    width: Any  # of the median distance
    cap: Any  # C, the largest step
    tau: Any  # what remains of a coefficient after a row
    rate: Any  # of the learned widths, 0 where they are fixed
    place: Any  # the row of ``bend`` that holds a member's learned widths
    lags: Any  # 1: the last columns, which hold earlier targets, are seen, too
    aim: Any  # numbers: 0 the target, 1 what the first line leaves over, 2 what the second does


class Views(NamedTuple):
    """What the columns have shown so far, and how their values become codes until the next look."""

    seen: Any  # values that were there, per column
    mean: Any
    spread: Any  # sum of squares around the mean
    fourth: Any  # sum of fourth powers of what is standardised
    plain: Any  # 1 while a column has shown 0 and 1 only
    form: Any  # 0 linear, 1 as it is, 2 asinh
    center: Any
    unit: Any
    median: Any  # distances: A squared, A in L1, raw squared, raw in L1
    count: Any  # rows seen, points stored, next row at which codes are made anew


class Points(NamedTuple):
    """Rows in eight bits, and what each member makes of them."""

    code: Any  # (columns, places)
    coef: Any  # (members, outputs, places)
    heft: Any  # (places,)  what would be lost with the point
    fade: Any  # (members,)  coefficients are this times what is stored
    bend: Any  # (learned members, columns)  log widths
    rms: Any  # (members,)  size of their gradients


class Linear(NamedTuple):
    """Members in primal weights, one after the other in ``weight``: outputs times length, then AROW's variances."""

    arow: Any  # 0 PA, 1 AROW
    sees: Any  # 0 scaled, 1 raw, 2 scaled with past labels, 3 random features
    cap: Any
    start: Any
    length: Any
    weight: Any
    power: Any  # running mean square of the raw view


class Combiner(NamedTuple):
    """Who is believed."""

    slope: Any  # log temperature of each member
    curve: Any  # its curvature so far
    stack: Any  # weights of the members
    hessian: Any
    share: Any  # weights of members and stack in the mixture


class Past(NamedTuple):
    """Labels so far."""

    prior: Any  # (classes,)
    chain: Any  # (classes, classes)
    recent: Any  # (2, classes)
    last: Any  # [the last class or -1, the size of one count in chain]


class Record(NamedTuple):
    """How the portfolio went, thinned out: every ``count[1]`` rows one line."""

    count: Any  # lines, rows between them, next row
    row: Any
    weight: Any  # (lines, experts)  who was believed
    wrong: Any  # (experts + 3,)  mistakes or absolute errors of experts, stack, all of them together, no-change
    path: Any  # (lines, experts + 3)  the same over time


class Lines(NamedTuple):
    """Recursive least squares, one after the other: weights, and what is left unknown (a matrix, or its diagonal)."""

    whole: Any  # 1: a matrix, 0: a diagonal
    lags: Any
    keep: Any  # what a row's weight is multiplied by with each further row
    start: Any  # of the weights
    doubt: Any  # where the matrix begins
    weight: Any
    matrix: Any


class Target(NamedTuple):
    """What targets were like, and how far predictions were off."""

    moments: Any  # rows, mean, sum of squares, center, unit, last, the one before
    radius: Any  # half the width of an interval, mean absolute error, its running mean for the mixture


class Numbers(NamedTuple):
    members: Members
    views: Views
    points: Points
    lines: Lines
    combiner: Combiner
    target: Target
    record: Record


class Portfolio(NamedTuple):
    members: Members
    views: Views
    points: Points
    linear: Linear
    combiner: Combiner
    past: Past
    record: Record
