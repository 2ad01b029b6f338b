"""Small synthetic videos with known masks."""

from __future__ import annotations

import numpy as np

HEIGHT, WIDTH = 60, 84  # 5040 pixels: not a multiple of 64


def backdrop(seed: int = 0) -> np.ndarray:
    """A still scene of coloured tiles, float32."""
    rng = np.random.default_rng(seed)
    tiles = rng.integers(60, 180, (HEIGHT // 12 + 1, WIDTH // 12 + 1, 3))
    return np.kron(tiles, np.ones((12, 12, 1)))[:HEIGHT, :WIDTH].astype(np.float32)


def film(kind: str, frames: int = 97, objects_from: int = 80, noise: float = 3.0, seed: int = 1):
    """Yield (frame, mask of the moving square) of a scene: static, flicker, shake, ramp, switch or restless (waves below)."""
    rng = np.random.default_rng(seed)
    scene = backdrop()
    for t in range(frames):
        image, mask = scene.copy(), np.zeros((HEIGHT, WIDTH), bool)
        if kind == "flicker":
            image[10:20] += 50.0 * (t % 2)
        elif kind == "shake":
            image = np.roll(image, rng.integers(-1, 2, 2), (0, 1))
        elif kind == "restless":
            rows, columns = np.mgrid[HEIGHT // 2 : HEIGHT, :WIDTH]
            image[HEIGHT // 2 :] += (25 * np.sin(columns / 5 + rows / 3 + 0.9 * t) + rng.normal(0, 12, rows.shape))[..., None]
        elif kind == "ramp":
            image *= 1.0 + 0.35 * np.sin(t / 25.0)
        elif kind == "switch" and t >= frames // 2:
            image *= 0.6
        if t >= objects_from:
            x = 4 * (t - objects_from) % (WIDTH - 12)  # every place is visited once: the paper's rule learns what comes back
            mask[22:36, x : x + 12] = True
            image[mask] = (235.0, 20.0, 30.0)
        yield np.clip(image + rng.normal(0, noise, image.shape), 0, 255).astype(np.uint8), mask


def f_score(found: np.ndarray, truth: np.ndarray) -> float:
    hit = np.logical_and(found, truth).sum()
    return 2 * hit / max(1, found.sum() + truth.sum())
