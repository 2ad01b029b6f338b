"""The default rule: colours as in `fold`, and what a blob is instead of how old the model is.

Beside the alarms of colour there are those of texture; soft shadows are taken out; what is left is told apart by votes across
its edge: ghosts are learned at once, objects hardly, what is unclear now and then. See `texture`, `votes`, and docs/video.md.
"""

from __future__ import annotations

import numpy as np

from onkel.video.cpu.fold import Fold1
from onkel.video.cpu.paper import apart
from onkel.video.cpu.texture import SHADED, differing, grey, look, repeat_rim
from onkel.video.cpu.votes import RIM, cells, find_blobs, judge, keep_reference, vote
from onkel.video.settings import Settings

FAITH = 0.1  # an object learns with this share of `slow`


class Fold(Fold1):
    """The default rule, second generation."""

    theta_range = (0.6, 0.75)

    def __init__(self, settings: Settings, height: int, width: int, channels: int, dtype: np.dtype, threads: int):
        super().__init__(settings, height, width, channels, dtype, threads)
        self.usual_bits, self.spread = np.zeros((2, height, width), np.uint8)
        self.now, self.then, self.bits = np.zeros((3, height + 2 * RIM, width + 2 * RIM), np.uint8)
        self.greyed = False  # whether `then` is the reference's
        self.limits = [tuple(apart(width + 2 * RIM, np.uint8) for _ in range(2)) for _ in range(threads)]
        self.cells = cells(height, width)
        self.tally = np.zeros(self.cells.sums.shape, np.int32)

    def apply(self, frame: np.ndarray, out: np.ndarray, learn: bool, forgetting: float | None) -> None:
        s, g = self.settings, self.grid
        flat = frame.reshape(g.pixels, g.channels)
        if self.frames == 0:
            self.start(flat, out, learn)
            return
        shrink, cap = s.step(forgetting)
        slow = min(cap, s.slow)
        caps = (cap, cap, FAITH * slow) if s.votes else (cap, slow, slow)
        self.raise_alarms(flat, shrink, caps, learn)
        self.look(flat, learn)
        lonely = self.settle(flat, out, learn)
        if s.detectShadows:
            self.mark_shadows(out)
        if learn:
            self.hear_votes(flat)
            self.end(lonely, shrink)

    def look(self, flat: np.ndarray, learn: bool) -> None:
        """Alarms of texture, and shadows."""
        s, g, run = self.settings, self.grid, self.settlers.run
        if s.texture:
            if not self.greyed:
                self.turn_grey(self.reference, self.then)
                self.greyed = True
            self.turn_grey(flat, self.now)
            run(lambda part, turns: differing(self.now, self.then, self.bits, turns, *self.limits[part]), g.height + 2 * RIM - 4)
        if not (s.texture or s.shadows):
            return
        state, raw = (self.usual_bits, self.spread, g.image(self.previous)), g.image(g.raw_blocks)

        def work(part: int, turns: np.ndarray) -> None:
            how = s.texture, s.shadows, learn, self.frames
            look(flat, self.reference, self.bits, *state, raw, *how, turns, g.column[part], g.count[part])

        run(work, g.height)

    def turn_grey(self, flat: np.ndarray, out: np.ndarray) -> None:
        g = self.grid
        self.settlers.run(lambda part, turns: grey(flat.reshape(-1), out, g.width, turns), g.height)
        repeat_rim(out)

    def mark_shadows(self, out: np.ndarray) -> None:
        """127 where a shadow is, as OpenCV's subtractors mark it."""
        np.copyto(out, 127, where=(self.grid.image(self.grid.raw_blocks) == SHADED) & (out == 0))

    def hear_votes(self, flat: np.ndarray) -> None:
        """Tell ghosts from objects, and keep the background's colour under both."""
        s, g, c = self.settings, self.grid, self.cells
        settled = g.image(self.previous)
        if s.votes and find_blobs(settled, self.tally, c.root):
            self.settlers.run(
                lambda part, turns: vote(flat, self.reference, settled, self.tally, c.sums, c.counts, s.sharpness, turns),
                len(c.sums),
            )
            judge(c, self.tally, self.frames)
        else:
            c.place[:] = c.blob[:] = 0.0
            self.tally[:] = 255
        kept = self.reference, self.spare, self.then, self.now  # both come as they are now
        keep_reference(*kept, settled, g.image(g.raw_blocks), self.tally, SHADED)
        repeat_rim(self.now)
        self.reference, self.spare = self.spare, self.reference
        self.then, self.now = self.now, self.then

    def arrays(self) -> dict[str, np.ndarray]:
        of_cells = {"place": self.cells.place, "blob": self.cells.blob}
        return {**super().arrays(), "usual_bits": self.usual_bits, "spread": self.spread, **of_cells}

    def scalars(self) -> dict[str, float]:
        return {"scale": self.scale, "frames": self.frames, "theta": self.theta}
