"""Which predictions deserve a label, where labels are dear: those whose two best classes are closest, a share ``rate`` of all."""

from __future__ import annotations

SPEED = 0.02  # by how much an ask moves the threshold


class Asker:
    """The threshold on the margin follows the rate: every ask lowers it, every prediction without one lifts it a little."""

    def __init__(self, rate: float):
        self.rate, self.threshold = rate, 0.5

    def __call__(self, chances: list[float]) -> bool:
        best = sorted(chances)[-2:]
        margin = best[1] - best[0] if len(best) == 2 else 0.0
        asks = self.rate > 0.0 and (self.rate >= 1.0 or margin <= self.threshold)
        self.threshold = min(max(self.threshold + SPEED * (self.rate - asks), 0.0), 1.0)
        return asks
