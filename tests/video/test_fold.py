"""The default rule of older versions, one pixel at a time, against slow plain Python in float64 with explicit decay."""

from __future__ import annotations

import numpy as np
import pytest

from onkel.video import BackgroundSubtractor
from onkel.video.cpu.fold import BOOST, CALM


class Pixel:
    """A video of one pixel: rule "fold1" without light and with a fixed threshold, as docs/video.md tells it."""

    def __init__(self, whole, budget=8, sigma=20.0, C=0.12, lam=0.008, threshold=0.6, fold=0.7, move=0.2, slow=0.007, rho=1.0):
        self.budget, self.sigma, self.C, self.lam, self.threshold, self.rho = budget, sigma, C, lam, threshold, rho
        self.fold, self.move, self.slow, self.whole = fold, move, slow, whole
        self.points, self.coef = [], []  # a slot whose coefficient is 0 is free
        self.alarm, self.frames, self.calm, self.disturbed = False, 0, 0, False

    def see(self, x, rate=None):
        x = x.astype(float)
        if self.frames == 0:
            self.points, self.coef, self.frames, self.calm = [x.copy()], [self.rho], 1, 1
            return self.rho
        k = [np.exp(-((p - x) ** 2).sum() / (2 * self.sigma**2)) if a > 0 else 0.0 for p, a in zip(self.points, self.coef)]
        f = float(np.dot(k, self.coef))
        before, self.alarm = self.alarm, f < self.threshold
        shrink = 1 / (1 + self.lam) if rate is None else 1 - rate
        cap = shrink * self.C
        slow = cap if self.slow is None else self.slow
        a = min(max(self.rho - shrink * f, 0), min(cap, max(slow, BOOST / max(1, self.calm))) if before else cap)
        self.coef = [c * shrink for c in self.coef]
        near = max(range(len(k)), key=lambda slot: (k[slot], slot))  # of colours equally near the one in the last slot
        if self.fold is not None and k[near] > self.fold:
            self.coef[near] += a
            if not before:
                moved = self.points[near] + self.move * (x - self.points[near])
                self.points[near] = np.floor(moved + 0.5) if self.whole else moved
        elif a > 0:
            weakest = int(np.argmin(self.coef))
            if self.coef[weakest] > 0 and len(self.coef) < self.budget:
                self.points.append(x.copy())
                self.coef.append(a)
            elif a >= self.coef[weakest]:
                self.points[weakest], self.coef[weakest] = x.copy(), a
            else:
                self.coef[weakest] -= a
        self.frames += 1
        self.calm += 1
        if self.alarm:  # more than half of the picture
            self.calm, self.disturbed = 0, True
        elif self.disturbed:
            self.calm, self.disturbed = max(self.calm, CALM), False
        if self.frames % 64 == 63:  # what has faded makes room
            self.coef = [c if c >= 0.005 * self.rho else 0.0 for c in self.coef]
            while len(self.coef) > 1 and self.coef[-1] <= 0:
                del self.points[-1], self.coef[-1]
        return f


def colours(seed, channels, n=330):
    """Five colours that take turns, with noise; one of them takes long rests."""
    rng = np.random.default_rng(seed)
    modes, at = rng.integers(30, 220, (5, channels)), np.repeat(rng.integers(0, 5, n), rng.integers(1, 9, n))[:n]
    return np.clip(modes[at] + rng.normal(0, 5, (n, channels)), 0, 255)


OPTIONS = [
    {},
    {"budget": 1},
    {"budget": 3, "C": 0.3, "move": 0.5},
    {"budget": 5, "fold": None, "slow": None},
    {"fold": 0.9, "move": 0.0, "slow": 0.05, "threshold": 0.4},
    {"lam": 0.5, "C": 1.0, "slow": 0.3},
    {"sigma": 8.0, "rho": 2.0, "threshold": 1.1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("dtype", "channels"), [(np.uint8, 3), (np.float32, 3), (np.uint8, 1)])
def test_a_pixel_follows_the_rule_as_told(options, dtype, channels):
    subtractor = BackgroundSubtractor("fold1", threads=1, light=False, nu=None, **{"threshold": 0.6, **options})
    twin = Pixel(dtype == np.uint8, **{**options, "sigma": options.get("sigma", 20.0) / (1.0 if channels == 3 else np.sqrt(3.0))})
    for t, x in enumerate(colours(1, channels).astype(dtype)):
        rate = 0.1 if t % 50 == 49 else -1
        mask = subtractor.apply(x.reshape(1, 1, -1), learningRate=rate)
        f = twin.see(x, rate if rate > 0 else None)
        assert subtractor.scores.item() == pytest.approx(f, abs=3e-4), t
        assert bool(mask) == twin.alarm, t
