"""Several learners over one stream at once: the grids behind sweeps and tuned tables."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from onkel.blocks import Store
from onkel.learner import Learner, Trace, checked_weights
from onkel.products import blas_threads
from onkel.state import State


def learn_many(
    learners: Iterable[Learner],
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    states: Iterable[State] | None = None,
    threads: int | None = None,
    backend: str = "cpu",
) -> list[tuple[State, Trace]]:
    """Run independent learners over the same examples; returns what ``learner.learn`` would have for each, in order.

    The stream is read and checked once.  The learners share the cores, ``threads`` of them (all by default), one learner on one
    core at a time: the compiled loop and BLAS let go of Python's lock.  ``backend="gpu"`` runs all of them on the card together.

    >>> import numpy as np, onkel
    >>> X = np.random.default_rng(0).normal(size=(300, 2)); y = np.sign(X[:, 0])
    >>> grid = [onkel.silk(onkel.RBF(sigma), onkel.Hinge(), budget=20) for sigma in (0.5, 1.0, 2.0)]
    >>> [bool(trace.mistake.sum() < 100) for _, trace in learn_many(grid, X, y)]
    [True, True, True]
    """
    crew = list(learners)
    if not all(isinstance(learner, Learner) for learner in crew):
        raise TypeError("learn_many: learners must be Learner objects, as onkel.norma, onkel.silk and their like make them")
    starts = [learner.init() for learner in crew] if states is None else [state.copy() for state in states]
    if len(starts) != len(crew):
        raise ValueError(f"learn_many: there are {len(crew)} learners and {len(starts)} states; give one state for each learner")
    blocks: dict[Any, Store] = {}
    jobs = []
    for learner, state in zip(crew, starts, strict=True):
        # kernels differ, but what counts for reading is only the model's number type and the kernel's kind
        key = (state.slots.dtype if state.width else None, state.width, type(learner.kernel).__name__ == "Matrix")
        if key not in blocks:
            blocks[key] = learner.read(X, state)
        jobs.append((learner, state, blocks[key], learner.targets(y, len(blocks[key]))))
    weight = None if sample_weight is None or not jobs else checked_weights(sample_weight, len(jobs[0][2]))
    if not jobs:
        return []
    if backend == "gpu":
        from onkel import gpu

        if any(not np.array_equal(job[3], jobs[0][3]) for job in jobs):
            raise ValueError("learn_many: on the card all learners must learn from the same targets; take backend='cpu'")
        traces = gpu.learn_many([job[0] for job in jobs], [job[1] for job in jobs], jobs[0][2], jobs[0][3], weight)
    elif backend == "cpu":
        workers = max(1, min(len(jobs), os.cpu_count() or 1 if threads is None else threads))
        with blas_threads(1), ThreadPoolExecutor(workers) as pool:
            # the dear ones first, so that no core is left with one of them at the end
            dear = sorted(range(len(jobs)), key=lambda i: -_price(jobs[i][0]))
            running = {i: pool.submit(jobs[i][0].advance, jobs[i][1], jobs[i][2], jobs[i][3], weight) for i in dear}
            traces = [running[i].result() for i in range(len(jobs))]
    else:
        raise ValueError(f"backend must be 'cpu' or 'gpu'; got {backend!r}")
    return [(job[1], trace) for job, trace in zip(jobs, traces, strict=True)]


def _price(learner: Learner) -> float:
    return np.inf if learner.budget.size is None else float(learner.budget.size)
