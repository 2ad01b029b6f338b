"""Names of examples: which of the stored points are whose, for those who have to forget on demand."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Known(NamedTuple):
    """Ids by the numbers of their examples, in the order of these."""

    born: NDArray[np.int64]
    given: list[Any]

    def of(self, born: NDArray[np.int64]) -> list[Any]:
        """The ids of the examples with these numbers; None for one that has none."""
        names = dict(zip(self.born.tolist(), self.given, strict=True))
        return [names.get(number) for number in born.tolist()]


def remembered(known: Known | None, t: int, ids: list[Any], stored: NDArray[np.int64]) -> Known:
    """With the ids of the last examples up to t, those of the stored ones: ids of points that are gone go with them."""
    born, given = np.arange(t - len(ids) + 1, t + 1), list(ids)
    if known is not None:
        born, given = np.concatenate([known.born, born]), known.given + given
    there = np.isin(born, stored[stored >= 0])
    return Known(born[there], [one for one, here in zip(given, there.tolist(), strict=True) if here])
