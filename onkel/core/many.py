"""Several learners over one stream at once: the grids behind sweeps and tuned tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.checks import check_state, check_threads, checked_weights
from onkel.core.drive import Trace, advance, in_loop
from onkel.core.learner import Learner
from onkel.core.machine.blas import one_blas_thread
from onkel.core.maths.quantities import QUANTITY
from onkel.core.points.dense import Array, Rows, finish_rows
from onkel.core.points.matrices import Workspace
from onkel.core.points.read import Store
from onkel.core.state import State

PIECE = 256  # examples that learners of the same points go through together


class Job(NamedTuple):
    """One learner's share of the work."""

    learner: Learner
    state: State
    block: Store
    y: NDArray[np.float64]


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

    The stream is read and checked once.  The learners share the cores, ``threads`` of them (all by default): the compiled loop
    and BLAS let go of Python's lock.  Those that keep the same points, since their loss stores every example and the oldest goes,
    also share products and distances, whatever their widths, steps and decays.  ``backend="gpu"`` runs all on the card together.

    >>> import numpy as np, onkel
    >>> X = np.random.default_rng(0).normal(size=(300, 2)); y = np.sign(X[:, 0])
    >>> grid = [onkel.silk(onkel.RBF(sigma), onkel.Hinge(), budget=20) for sigma in (0.5, 1.0, 2.0)]
    >>> [bool(trace.mistake.sum() < 100) for _, trace in learn_many(grid, X, y)]
    [True, True, True]
    """
    check_threads(1 if threads is None else threads)
    crew = list(learners)
    if not all(isinstance(learner, Learner) for learner in crew):
        raise TypeError("learn_many: learners must be Learner objects, as onkel.norma, onkel.silk and their like make them")
    starts = [learner.init() for learner in crew] if states is None else [state.copy() for state in states]
    if len(starts) != len(crew):
        raise ValueError(f"learn_many: there are {len(crew)} learners and {len(starts)} states; give one state for each learner")
    blocks: dict[Any, Store] = {}
    jobs = []
    for learner, state in zip(crew, starts, strict=True):
        check_state(state, learner.made_for)
        # kernels differ, but what counts for reading is only what the model has learned from and the kernel's kind
        kind = (state.slots.dtype, state.width, type(state.store)) if state.width else None
        key = kind, "objects" in learner.kernel.takes
        if key not in blocks:
            blocks[key] = learner.read(X, state)
        jobs.append(Job(learner, state, blocks[key], learner.targets(y, len(blocks[key]))))
    weight = None if sample_weight is None or not jobs else checked_weights(sample_weight, len(jobs[0].block))
    if not jobs:
        return []
    if backend == "gpu":
        from onkel import gpu

        if any(not np.array_equal(job.y, jobs[0].y) for job in jobs):
            raise ValueError("learn_many: on the card all learners must learn from the same targets; take backend='cpu'")
        traces = gpu.learn_many(crew, starts, jobs[0].block, jobs[0].y, weight)
    elif backend == "cpu":
        workers = max(1, min(len(jobs), os.cpu_count() or 1 if threads is None else threads))
        done: dict[int, Trace] = {}
        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            running = [(part, pool.submit(in_turns, [jobs[i] for i in part], weight)) for part in parts(jobs, workers)]
            try:
                for part, task in running:
                    done.update(zip(part, task.result(), strict=True))
            except BaseException:  # Ctrl-C, or a learner that failed: do not begin with the others
                pool.shutdown(cancel_futures=True)
                raise
        traces = [done[i] for i in range(len(jobs))]
    else:
        raise ValueError(f"backend must be 'cpu' or 'gpu'; got {backend!r}")
    return list(zip(starts, traces, strict=True))


def parts(jobs: list[Job], workers: int) -> Iterator[list[int]]:
    """What one core does in one go: a single learner, or its share of those that keep the same points; the expensive ones first, so
    that no core is left with one of them at the end."""
    alike: dict[Any, list[int]] = {}
    for i, (learner, state, block, _) in enumerate(jobs):
        shares = learner.kernel.geometry in QUANTITY and state.size == 0 and _stores_all(learner, block, state)
        alike.setdefault((id(block), learner.kernel.geometry, learner.budget) if shares else i, []).append(i)
    for group in sorted(alike.values(), key=lambda group: -_price(jobs[group[0]].learner)):
        for first in range(min(workers, len(group))):
            yield group[first::workers]


def in_turns(jobs: list[Job], weight: Any) -> list[Trace]:
    """Learn the stream, one learner, or several of them piece by piece."""
    if len(jobs) == 1:
        learner, state, block, y = jobs[0]
        return [advance(learner, state, block, y, weight)]
    block = jobs[0].block
    room = Shared(block.dtype)
    told: list[list[Trace]] = [[] for _ in jobs]
    for first in range(0, len(block), PIECE):
        piece = slice(first, min(first + PIECE, len(block)))
        rows, importance = block.take(piece), None if weight is None else weight[piece]
        room.kept.clear()
        for (learner, state, _, y), traces in zip(jobs, told, strict=True):
            traces.append(advance(learner, state, rows, y[piece], importance, room=room, before=first))
    return [Trace(*map(np.concatenate, zip(*traces, strict=True))) for traces in told]


class Shared(Workspace):
    """Products and distances of one piece of the stream, each computed by the first learner that asks for it."""

    def __init__(self, dtype: Any):
        super().__init__(dtype)
        self.kept: dict[Any, Array] = {}

    def evaluate(self, name: str, kernel: Any, X: Store, Z: Store, live: int, columns: int, at: tuple[int, Array]) -> Array:
        key = name, kernel.geometry, len(X), columns, at[0], at[1].tobytes()
        if key not in self.kept:
            raw = np.empty((len(X), columns), X.dtype)
            self.kept[key] = QUANTITY[kernel.geometry].between(X, Z, live, raw, name == "inner")
        K = self.matrix(name, len(X), columns)
        K[:] = self.kept[key]
        finish_rows(kernel, K, name == "inner")
        return K


def _stores_all(learner: Learner, block: Store, state: State) -> bool:
    """Whether every example takes a place and the oldest leaves it, so that the points do not depend on the scores, and kernel
    values come from matrices."""
    always = learner.budget.rule.in_turn and learner.loss.stores_all
    return always and isinstance(block, Rows) and not in_loop(learner, state, block)


def _price(learner: Learner) -> float:
    return np.inf if learner.budget.size is None else float(learner.budget.size)
