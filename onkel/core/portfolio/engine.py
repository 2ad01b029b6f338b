"""A portfolio that grows: the compiled loops behind one face, for rows of numbers and codes of classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core.portfolio import classes, make, make_numbers, numbers
from onkel.core.portfolio.make import nbytes


class TooSmall(ValueError):
    """A budget that holds no portfolio."""


class Engine:
    """What both have in common: growing, copies, files, and what was found out."""

    def __init__(self, small: bool, past: bool) -> None:
        self.small, self.past = small, past
        self.budget = self.d = self.classes = 0
        self.of: Any = None
        self.state: Any = None

    def copy(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.state = _copied(self.state)
        return twin

    @property
    def nbytes(self) -> int:
        return 0 if self.state is None else nbytes(self.state)

    def share_out(self, budget: int, d: int, classes: int) -> Any:
        raise NotImplementedError

    def fresh(self, of: Any, d: int, classes: int) -> Any:
        raise NotImplementedError

    def more(self, of: Any, d: int, classes: int) -> Any:
        raise NotImplementedError

    def check(self, budget: int, d: int, classes: int) -> Any:
        """The plan, or an error that says how many bytes would do."""
        of = self.share_out(budget, d, classes)
        if of.places < 8:
            what = f"{d} columns" + f" and {classes} classes" * (classes > 1)
            raise TooSmall(f"{what} take at least {of.least} bytes; there are {budget} for them")
        return of

    def fit_to(self, budget: int, d: int, classes: int) -> None:
        """Lay out the bytes for so many columns and classes, keeping what was learned."""
        if (budget, d, classes) == (self.budget, self.d, self.classes):
            return
        of = self.check(budget, d, classes)
        if self.of is None:
            self.state = self.fresh(of, d, classes)
        elif of != self.of or (d, classes) != (self.d, self.classes):
            self.state = self.more(of, d, classes)
        self.budget, self.d, self.classes, self.of = budget, d, classes, of

    # --- what was found out -------------------------------------------------------------------------------------------------------

    @property
    def points(self) -> int:
        return int(self.state.views.count[1])

    @property
    def experts(self) -> list[str]:
        """Names of the members."""
        raise NotImplementedError

    def shares(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """At which rows, and who was believed; the last line is now."""
        record, c = self.state.record, self.state.combiner
        now = c.share[:-1] + c.share[-1] * np.abs(c.stack) / max(float(np.abs(c.stack).sum()), 1e-12)
        n = int(record.count[0])
        return np.append(record.row[:n], self.state.views.count[0]), np.vstack([record.weight[:n].astype(float), now])

    def errors(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Mean errors so far at the same rows."""
        record = self.state.record
        n, t = int(record.count[0]), int(self.state.views.count[0])
        rows = np.append(record.row[:n], t)
        return rows, np.vstack([record.path[:n].astype(float), record.wrong]) / np.maximum(rows, 1)[:, None]

    def widths(self) -> NDArray[np.float64]:
        """The learned widths of members on the scaled view, weighted by how far they are believed."""
        members, bend = self.state.members, self.state.points.bend
        believed = self.shares()[1][-1][: len(members.rate)]
        learned = [m for m in range(len(members.rate)) if members.rate[m] > 0]
        weight = np.array([believed[m] + 1e-9 for m in learned])
        found = np.array([np.exp(bend[members.place[m]].astype(float)) for m in learned])
        return np.asarray(weight @ (found / found.mean(axis=1, keepdims=True)) / weight.sum())

    # --- files --------------------------------------------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Everything by name; what follows from the sizes is made again."""
        sizes = {name: getattr(self, name) for name in ("small", "past", "budget", "d", "classes")}
        return {**sizes, "state": None if self.state is None else _named(self.state)}

    def refill(self, parts: dict[str, Any]) -> None:
        """Take over what ``plain`` gave; this engine must be fresh."""
        if (bool(parts["small"]), bool(parts["past"])) != (self.small, self.past):
            raise ValueError("the portfolio was made with other parameters than its estimator has")
        if parts["state"] is None:
            return
        sizes = [parts[name] for name in ("budget", "d", "classes")]
        if not all(type(n) is int and n > 0 for n in sizes) or sizes[0] > 2**40:
            raise ValueError(f"a portfolio of {sizes}")
        self.fit_to(*sizes)
        _refill(self.state, parts["state"], "state")
        _sound(self.state)


class Classes(Engine):
    """Rows and codes of classes in, probabilities out; nothing here knows names."""

    def share_out(self, budget: int, d: int, classes: int) -> make.Plan:
        return make.plan(budget, d, classes, self.small, self.past)

    def fresh(self, of: Any, d: int, classes: int) -> Any:
        return make.portfolio(d, classes, of)

    def more(self, of: Any, d: int, classes: int) -> Any:
        return make.grown(self.state, self.of, d, classes, of)

    @property
    def experts(self) -> list[str]:
        return make.names(self.of)  # type: ignore[arg-type]

    def learn(self, X: NDArray[np.float64], y: NDArray[np.int64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows in their order; what was said about each before it was learned."""
        said = np.empty((len(X), self.classes))
        classes.learn(self.state, X, y, weight, said)
        return said

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        said = np.empty((len(X), self.classes))
        classes.predict(self.state, X, said)
        return said


class Reals(Engine):
    """Rows and numbers in, predictions out, each with half the width of its interval."""

    coverage = 0.9

    def share_out(self, budget: int, d: int, classes: int) -> make_numbers.Plan:
        return make_numbers.plan(budget, d, self.small, self.past)

    def fresh(self, of: Any, d: int, classes: int) -> Any:
        return make_numbers.numbers(d, of)

    def more(self, of: Any, d: int, classes: int) -> Any:
        return make_numbers.grown(self.state, self.of, self.d, d, of)  # type: ignore[arg-type]

    @property
    def experts(self) -> list[str]:
        return make_numbers.names(self.of)  # type: ignore[arg-type]

    def widths(self) -> NDArray[np.float64]:
        return super().widths()[: self.d]

    def learn(self, X: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows in their order; what was said about each before it was learned."""
        said = np.empty((len(X), 2))
        numbers.learn(self.state, X, y, weight, self.coverage, said)
        return said

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        said = np.empty((len(X), 2))
        numbers.predict(self.state, X, said)
        return said


FIXED = ("members", "arow", "sees", "cap", "start", "length", "whole", "lags", "keep", "doubt")  # these follow from the sizes


def _named(part: Any) -> Any:
    if not isinstance(part, tuple):
        return part
    return {name: _named(value) for name, value in zip(part._fields, part) if name not in FIXED}  # type: ignore[attr-defined]


def _refill(into: Any, parts: Any, where: str) -> None:
    """Put what a file says into arrays that were made for it."""
    if set(parts) != set(into._fields) - set(FIXED):
        raise ValueError(f"{where} has other parts than {', '.join(into._fields)}")
    for name, value in parts.items():
        target = getattr(into, name)
        if isinstance(target, tuple):
            _refill(target, value, f"{where}.{name}")
        elif not isinstance(value, np.ndarray) or (value.shape, value.dtype) != (target.shape, target.dtype):
            raise ValueError(f"{where}.{name} is not of the shape and type that its sizes give")
        elif value.dtype.kind == "f" and not np.isfinite(value).all() and name != "moments":
            raise ValueError(f"{where}.{name} holds numbers that are not finite")
        else:
            target[:] = value


def _sound(s: Any) -> None:
    """Refuse what the compiled loops, which ask nothing, could not work on safely."""
    rows, points, due = (int(n) for n in s.views.count)
    code = s.sample.code if hasattr(s, "sample") else s.points.code
    good = rows >= 0 and 0 <= points <= code.shape[1] and due >= 0
    good &= bool(np.isin(s.views.form, (0, 1, 2)).all() and (s.views.unit > 0).all() and (s.views.median > 0).all())
    if hasattr(s, "record"):
        lines, step, turn = (int(n) for n in s.record.count)
        good &= 0 <= lines <= len(s.record.row) and step > 0 and turn > 0 and bool((s.points.fade > 0).all())
        good &= bool(np.isfinite((s.points.coef.astype(np.uint32) << np.uint32(16)).view(np.float32)).all())
    if hasattr(s, "target"):
        good &= bool(np.isfinite(s.target.moments[:5]).all() and s.target.moments[4] > 0 and (s.target.radius >= 0).all())
    if hasattr(s, "past"):
        good &= -1 <= int(s.past.last[0]) < len(s.past.prior) and bool(s.past.last[1] > 0)
    if not good:
        raise ValueError("counts, units or coefficients of the portfolio do not fit together")


def _copied(part: Any) -> Any:
    if isinstance(part, tuple):
        return type(part)(*(_copied(p) for p in part))
    return None if part is None else part.copy()
