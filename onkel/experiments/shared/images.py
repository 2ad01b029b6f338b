"""The digit streams that several figures share; in quick runs scikit-learn's small digits stand for USPS and MNIST."""

from __future__ import annotations

from typing import Any

import numpy as np

from onkel import data
from onkel.experiments.experiment import Setting


def mnist(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """The 60,000 training digits in file order, pixels in [0, 1], in single precision for speed."""
    if not setting.full:
        return small(setting)
    X, y = data.load("mnist", directory=setting.directory).train()
    return X.astype(np.float32) / np.float32(255), y


def usps(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """The 7,291 training digits in file order, grey values in [-1, 1]."""
    if not setting.full:
        X, y = small(setting)
        return 2 * X - 1, y
    return data.load("usps", directory=setting.directory).train()


def small(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """The bundled 8 x 8 digits; the tiny form takes 600 of them, in an order drawn from the seed."""
    X, y = data.load("digits").train()
    rows = np.random.default_rng(setting.seed).permutation(len(y))[: setting.pick(None, None, 600)]
    return X[rows], y[rows]


def counting(setting: Setting, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Digits in the order of a decimal counter, 000 to 999 twice; in quick runs 00 to 99 six times, with small digits."""
    if setting.full:
        return data.load("counting_sequence", directory=setting.directory, seed=seed).train()
    X, y = data.load("digits").train()
    return data.counting_sequence(data.Dataset(2 * X - 1, y), seed=seed, runs=setting.pick(2, 6, 3), digits=2).train()


def width(X: np.ndarray) -> float:
    """The kernel width of both papers on USPS, 2 sigma^2 = d/2, that is sigma = 8 for 256 pixels."""
    return float(np.sqrt(X.shape[1]) / 2)


def unit(X: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def halves(y: np.ndarray) -> np.ndarray:
    """Digits 0-4 against 5-9 as +1 and -1."""
    return np.where(y < 5, 1.0, -1.0)


def orders(n: int, count: int, seed: int) -> list[np.ndarray]:
    """The file order, then random ones."""
    rng = np.random.default_rng(seed)
    return [np.arange(n), *(rng.permutation(n) for _ in range(count - 1))]


def sheet(axes: Any, pictures: np.ndarray, columns: int, theme: str) -> None:
    """Square grey pictures side by side, dark ink on light paper or the reverse."""
    side = pictures.shape[1]
    rows = -(-len(pictures) // columns)
    page = np.full((rows * (side + 1) + 1, columns * (side + 1) + 1), np.nan)
    for k, picture in enumerate(pictures):
        top, left = (side + 1) * (k // columns) + 1, (side + 1) * (k % columns) + 1
        low, high = picture.min(), picture.max()
        page[top : top + side, left : left + side] = (picture - low) / max(high - low, 1e-12)
    axes.imshow(page, cmap="gray_r" if theme == "light" else "gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()
