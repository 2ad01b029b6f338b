"""The default rule's own parts against plain twins, and what they are for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from onkel.video import BackgroundSubtractor
from onkel.video.cpu import texture
from onkel.video.cpu.paper import apart
from onkel.video.cpu.votes import BEYOND, CELL, OUTSIDE, REACH, RIM, cells, find_blobs, vote

from .scenes import HEIGHT, WIDTH, backdrop, film


def turns():
    return np.zeros(3, np.int64)


def rimmed(image):
    return np.pad(image, RIM, mode="edge")


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_texture_counts_the_neighbours_that_stand_differently(dtype):
    rng = np.random.default_rng(0)
    frame, reference = (rng.integers(0, 256, (9, 13, 3)).astype(dtype) for _ in range(2))
    greys = []
    for image in (frame, reference):
        out = np.zeros((9 + 2 * RIM, 13 + 2 * RIM), np.uint8)
        texture.grey(image.reshape(-1), out, 13, turns())
        texture.repeat_rim(out)
        np.testing.assert_array_equal(out, rimmed((image.astype(np.int64).sum(2) * 85) >> 8))
        greys.append(out)
    bits = np.zeros_like(greys[0])
    texture.differing(*greys, bits, turns(), *(apart(13 + 2 * RIM, np.uint8) for _ in range(2)))
    ways = [(r * dy, r * dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) for r in (1, 2) if (dy, dx) != (0, 0)]
    for y in range(2, 9 + 2 * RIM - 2):
        for x in range(2, 13 + 2 * RIM - 2):
            codes = []
            for g in (a.astype(int) for a in greys):
                codes.append([abs(g[y + dy, x + dx] - g[y, x]) > g[y, x] // 8 + 3 for dy, dx in ways])
            assert bits[y, x] == sum(a != b for a, b in zip(*codes, strict=True))


def test_usual_differences_are_learned_without_drift():
    """Steps of whole numbers, rounded by turns, follow the mean; what is usual raises no alarm, what is new does."""
    rng, size = np.random.default_rng(1), (6, 8)
    usual, spread = np.zeros((2, *size), np.uint8)
    column, count = np.zeros((2, size[1] + 4), np.uint8)
    still, frame = np.zeros(size, np.uint8), np.full((48, 3), 90, np.uint8)

    def see(bits, time):
        raw = np.zeros(size, np.uint8)
        state = np.full((size[0] + 2 * RIM, size[1] + 2 * RIM), bits, np.uint8)
        how = raw, True, False, True, time, turns(), column, count
        texture.look(frame, frame, state, usual, spread, still, *how)
        return raw

    for time in range(400):
        see(4 + rng.integers(-1, 2), time)
    assert np.all(abs(usual.astype(int) - 50) < 6)
    assert not see(5, 400).any()
    assert see(14, 401).all()


def plain_blobs(settled):
    rows, cols = -(-settled.shape[0] // CELL), -(-settled.shape[1] // CELL)
    padded = np.pad(settled, ((0, rows * CELL - settled.shape[0]), (0, cols * CELL - settled.shape[1])))
    full = padded.reshape(rows, CELL, cols, CELL).any((1, 3))
    filled = ndimage.binary_fill_holes(full)
    return full, filled, ndimage.label(filled, np.ones((3, 3)))[0]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.06, 0.3])
@pytest.mark.parametrize("size", [(31, 45), (4, 4), (1, 9), (40, 3)])
def test_blobs_and_their_holes(share, size):
    settled = (np.random.default_rng(3).random(size) < share).astype(np.uint8) * 255
    state = cells(*size)
    tally = np.zeros(state.sums.shape, np.int32)
    assert find_blobs(settled, tally, state.root) == settled.any()
    full, filled, labels = plain_blobs(settled)
    if settled.any():
        np.testing.assert_array_equal(tally, np.where(full, 1, np.where(filled, 2, 0)))
    root = state.root.reshape(tally.shape)
    assert np.all((root == OUTSIDE) == ~filled)
    for number in range(1, labels.max() + 1):
        assert len(set(root[labels == number])) == 1
    assert len(set(root[filled])) == labels.max()


def test_votes_are_what_the_edge_says():
    rng, (height, width), sigma = np.random.default_rng(4), (23, 30), 20.0
    frame, reference = rng.integers(80, 120, (2, height * width, 3)).astype(np.uint8)
    settled = np.zeros((height, width), np.uint8)
    settled[5:17, 6:22] = 255
    settled[8:13, 10:17] = 0  # one cell of this is empty: a hole
    state = cells(height, width)
    tally = np.zeros(state.sums.shape, np.int32)
    find_blobs(settled, tally, state.root)
    vote(frame, reference, settled, tally, state.sums, state.counts, np.log2(np.e) / (2 * sigma**2), turns())
    sums, counts = np.zeros(tally.shape), np.zeros(tally.shape, int)

    def k(a, b):
        return np.exp(-((a.astype(float) - b) ** 2).sum() / (2 * sigma**2))

    def inside(y, x):
        return 0 <= y < height and 0 <= x < width

    for y, x in np.argwhere(settled):
        for dy, dx in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            ground = [r for r in range(1, REACH + 1) if inside(y + r * dy, x + r * dx) and not settled[y + r * dy, x + r * dx]]
            if not ground:
                continue
            a, b = y + ground[0] * dy, x + ground[0] * dx
            if tally[a // CELL, b // CELL] == 2:
                continue
            if inside(a + BEYOND * dy, b + BEYOND * dx) and not settled[a + BEYOND * dy, b + BEYOND * dx]:
                a, b = a + BEYOND * dy, b + BEYOND * dx
            p, q = y * width + x, a * width + b
            sums[y // CELL, x // CELL] += k(frame[p], frame[q]) - k(reference[p], frame[q])
            counts[y // CELL, x // CELL] += 1
    np.testing.assert_array_equal(state.counts, counts)
    np.testing.assert_allclose(state.sums, sums, atol=1e-3)


def test_an_object_that_stays_is_kept_and_leaves_no_ghost():
    subtractor, scene = BackgroundSubtractor(threads=1), backdrop().astype(np.uint8)
    for _ in range(40):
        subtractor.apply(scene)
    parked = scene.copy()
    parked[20:40, 20:40] = (240, 10, 10)
    for _ in range(200):
        mask = subtractor.apply(parked)
    assert (mask[20:40, 20:40] > 0).mean() > 0.85
    for _ in range(5):
        mask = subtractor.apply(scene)
    assert not mask.any()


def test_what_was_there_at_first_leaves_a_ghost_that_heals():
    plain = np.random.default_rng(0).normal(120, 3, (HEIGHT, WIDTH, 3)).clip(0, 255).astype(np.uint8)
    full = plain.copy()
    full[20:40, 20:40] = (240, 10, 10)
    healed = {}
    for rule in ("fold", "fold1"):
        subtractor = BackgroundSubtractor(rule, threads=1)
        for _ in range(60):
            subtractor.apply(full)
        shares = [(subtractor.apply(plain)[20:40, 20:40] > 0).mean() for _ in range(100)]
        healed[rule] = next((t for t, share in enumerate(shares) if share == 0), 100)
    assert healed["fold"] < 15 < healed["fold1"]


def test_a_soft_shadow_is_no_object_and_can_be_marked():
    rng, scene = np.random.default_rng(2), backdrop()
    usual, marking = BackgroundSubtractor(threads=1, light=False), BackgroundSubtractor(threads=1, light=False, detectShadows=True)
    for t in range(50):
        image = scene.copy()
        if t == 49:
            image[15:40, 20:50] *= 0.88
        frame = np.clip(image + rng.normal(0, 2, image.shape), 0, 255).astype(np.uint8)
        mask, marked = usual.apply(frame), marking.apply(frame)
    assert (mask[15:40, 20:50] > 0).mean() < 0.05
    assert (marked[15:40, 20:50] == 127).mean() > 0.3
    np.testing.assert_array_equal(mask, np.where(marked == 127, 0, marked))


def test_texture_finds_what_colour_does_not():
    rng = np.random.default_rng(5)
    dots, found = rng.choice([-9.0, 9.0], (20, 20)), {}
    for on in (True, False):
        subtractor = BackgroundSubtractor(threads=1, texture=on, shadows=False)
        for t in range(52):
            image = np.full((HEIGHT, WIDTH), 100.0)
            if t >= 50:
                image[20:40, 30:50] += dots  # of the same mean
            noisy = np.clip(image + rng.normal(0, 1, image.shape), 0, 255).astype(np.uint8)
            mask = subtractor.apply(np.repeat(noisy[..., None], 3, 2))
        found[on] = (mask[20:40, 30:50] > 0).mean()
    assert found[True] > 0.5 > 0.2 > found[False]


def test_older_files_go_on_with_the_rule_they_were_made_with():
    subtractor = BackgroundSubtractor("fold1", threads=1)
    frames = [frame for frame, _ in film("static", 20, 10)]
    for frame in frames[:10]:
        subtractor.apply(frame)
    parts = subtractor._to_file()
    settings = {k: v for k, v in parts["settings"].items() if k not in ("texture", "shadows", "votes", "detectShadows")}
    older = BackgroundSubtractor._from_file({**parts, "settings": {**settings, "rule": "fold"}})
    assert older.settings.rule == "fold1"
    for frame in frames[10:]:
        np.testing.assert_array_equal(subtractor.apply(frame), older.apply(frame))


def test_what_does_not_go_together_is_said():
    with pytest.raises(ValueError, match="detectShadows=True: only rule='fold'"):
        BackgroundSubtractor("fold1", detectShadows=True)
    with pytest.raises(ValueError, match="detectShadows=True"):
        BackgroundSubtractor(shadows=False, detectShadows=True)
