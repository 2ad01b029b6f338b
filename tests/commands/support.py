"""What the tests of the commands share: tables with a class that drifts, and `onkel run` without its figure."""

from pathlib import Path

import numpy as np

from onkel import cli

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--budget", "16")


def stream(n, seed=0, d=3):
    """Rows of numbers with a class that drifts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).round(6)
    turn = np.linspace(0, 3, n)
    return X, np.where(X[:, 0] * np.cos(turn) + X[:, 1] * np.sin(turn) > 0, "up", "down")


def lines(X, y, header=True):
    names = [",".join([*(f"x{i}" for i in range(X.shape[1])), "label"])] if header else []
    return [*names, *(",".join([*map(repr, row), str(label)]) for row, label in zip(X.tolist(), y))]


def as_csv(path, X, y):
    path.write_text("\n".join(lines(X, y)) + "\n")
    return path


def onkel_run(*arguments):
    return cli.main(["run", *map(str, arguments), "--no-figure"])
