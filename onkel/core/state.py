"""The state of a learner: everything that changes, as plain arrays, so that saving, comparing and copying are trivial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.gate import sound
from onkel.core.ids import Known
from onkel.core.loop import layout as at
from onkel.core.machine.lanes import aligned
from onkel.core.points.dense import Array
from onkel.core.points.read import Store


@dataclass(eq=False)
class State:
    """Everything that changes while a learner learns, as plain arrays; layout.py says what stands where.

    ``points`` and ``coef`` are the expansion, oldest term first, with all decay folded in.
    """

    m: int
    base: int
    scalar: bool
    num: NDArray[np.float64]
    slots: Array = field(default_factory=lambda: np.zeros((0, 0)))
    born: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    gram: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    store: Store | None = None
    width: int = 0  # features; 0 before the first example, -1 for objects
    known: Known | None = None  # the ids of the stored examples, where ids were given
    made_for: dict[str, Any] | None = None  # what a learner must have in common with the one that made it; None where a file did

    @property
    def t(self) -> int:
        """How many examples have been learned."""
        return int(self.num[at.T])

    @property
    def size(self) -> int:
        """How many points the expansion holds."""
        return int(self.num[at.N])

    @property
    def offset(self) -> Any:
        """b: a number, or one for each label."""
        b = self.num[at.NUMBERS : at.NUMBERS + self.m]
        return float(b[0]) if self.scalar else b.copy()

    @property
    def order(self) -> NDArray[np.int64]:
        """The slots in use, oldest point first."""
        live = np.flatnonzero(self.born >= 0)
        return live[np.argsort(self.born[live], kind="stable")]

    @property
    def ids(self) -> list[Any] | None:
        """The ids of the stored points, oldest first; None where none was given, for a point or for all of them."""
        return None if self.known is None else self.known.of(self.born[self.order])

    @property
    def points(self) -> Any:
        """The stored points, oldest first: an array, a CSR matrix or a list of objects."""
        if self.store is not None:
            return self.store.take(self.order).plain()
        return np.ascontiguousarray(self.slots[self.base + at.AUX :, self.order].T)

    @property
    def coef(self) -> Array:
        """Coefficients of f, oldest first: (k,), or (k, m) for labels."""
        a: Array = self.num[at.SCALE] * self.slots[: self.m, self.order].T.astype(np.float64).reshape(-1, self.m)
        return a[:, 0].copy() if self.scalar else a

    @property
    def trace_coef(self) -> Array:
        """Coefficients of v, the trace of an adaptive step; nothing for the other steps."""
        u = self.slots[self.m : self.base, self.order].T.astype(np.float64)
        v: Array = self.num[at.TRACE_SCALE] * u + self.num[at.TRACE_MIX] * self.slots[: self.base - self.m, self.order].T
        return v[:, 0].copy() if self.scalar and v.shape[1] else v

    @property
    def nbytes(self) -> int:
        """Exactly how many bytes the state's arrays take."""
        own = self.num.nbytes + self.slots.nbytes + self.born.nbytes + self.gram.nbytes
        return int(own + (self.store.nbytes if self.store is not None else 0))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Those that compiled code changes."""
        return self.num, self.slots, self.born, self.gram

    def copy(self, arrays: Sequence[NDArray[Any]] = ()) -> State:
        """Everything that changes is copied.  ``arrays``: copies of ``self.arrays`` that were made before, of one moment."""
        store = None if self.store is None else self.store.copy()
        if not arrays:
            aside = aligned(self.slots.shape, self.slots.dtype)
            aside[:] = self.slots
            arrays = self.num.copy(), aside, self.born.copy(), self.gram.copy()
        num, slots, born, gram = arrays
        return State(self.m, self.base, self.scalar, num, slots, born, gram, store, self.width, self.known, self.made_for)

    def __setstate__(self, parts: dict[str, Any]) -> None:
        """From a pickle, whose arrays may be views of a file that is only read."""
        own = {name: np.array(a) for name, a in parts.items() if isinstance(a, np.ndarray) and not a.flags.writeable}
        self.__dict__.update(parts | own)
        sound(self)

    def __repr__(self) -> str:
        return f"State(t={self.t}, size={self.size})"
