"""The map of light: medians of medians, at every edge."""

from __future__ import annotations

import numpy as np
import pytest

from onkel.video.cpu.light import DARKEST, LIGHTEST, REACH, Light


def medians(a):
    """Of what a window of 2 REACH + 1 columns sees; of an even number the upper one."""
    parts = [np.sort(a[:, max(0, j - REACH) : j + REACH + 1], axis=1) for j in range(a.shape[1])]
    return np.stack([part[:, part.shape[1] // 2] for part in parts], axis=1)


@pytest.mark.parametrize(("height", "width"), [(6, 6), (9, 9), (9, 11), (10, 40), (40, 12), (60, 84)])
def test_the_map_is_medians_of_samples_then_rows_then_columns(height, width):
    rng = np.random.default_rng(0)
    frame, reference = rng.integers(60, 200, (2, height * width, 3)).astype(np.uint8)
    light = Light(height, width)
    light.compare(frame, reference)
    brightness, before = (8.0 + image.sum(1, dtype=np.float32) for image in (frame, reference))
    ratio = (brightness / before)[light.samples]  # (rows, samples, columns)
    tiles = np.sort(ratio, axis=1)[:, ratio.shape[1] // 2]
    gain = medians(medians(tiles).T).T
    np.testing.assert_array_equal(light.gain, np.where((gain > DARKEST) & (gain < LIGHTEST), gain, 1.0))
