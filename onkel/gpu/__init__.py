"""Learning on a graphics card, with CuPy: one learner with a large budget, or many learners over one stream.

Kernel values between a block of examples and the stored points come from cuBLAS, in full precision; then one kernel (cuda_scan.py)
learns the block, example after example, for all learners at once.  States come and go as the plain arrays that the CPU works
on, so either side can continue where the other stopped.  CuPy is imported when it is asked for, not before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.checks import failure
from onkel.core.drive import Trace, settle
from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.maths.kernels import RBF, Linear, Polynomial
from onkel.core.maths.labelled import Softmax, Structured
from onkel.core.maths.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Novelty, Square
from onkel.core.maths.steps import Explicit, Implicit, etas, small_enough
from onkel.core.points.dense import Array, Rows
from onkel.core.points.read import Store
from onkel.core.state import State
from onkel.gpu.scan import SCAN
from onkel.gpu.values import VALUES

LOSSES = (Hinge, Novelty, Square, EpsilonInsensitive, Huber, Logistic, Structured, Softmax)  # in the order of cuda.py
KERNELS = (RBF, Polynomial, Linear)
IMPLICIT, LAM, C, NU, OFFSET, SMALLEST, BUDGET, ETA, ETA_ROW, KERNEL, RULES = range(11)  # as in cuda.py
N, USED, HEAD, SCALE, THETA, FAILED, NUMBERS = range(7)
CHUNK = 8
FREE = np.uint32(0xFFFFFFFF)
THREADS = 512  # of a learner that has a multiprocessor for itself; where two share one, each has half


def learn(learner: Learner, state: State, block: Store, y: NDArray[np.float64], weight: Any = None) -> Trace:
    """Learn a block in place, as ``core.drive.advance`` does."""
    return learn_many([learner], [state], block, y, weight)[0]


def learn_many(
    learners: Sequence[Learner], states: Sequence[State], block: Store, y: NDArray[np.float64], weight: Any = None
) -> list[Trace]:
    """Learn a block in place with every learner; those of equal budget, loss and labels run side by side."""
    for learner in learners:
        check(learner, block)
    assert isinstance(block, Rows)
    cp = cupy()
    groups: dict[Any, list[int]] = {}
    for i, (learner, state) in enumerate(zip(learners, states, strict=True)):
        if state.width and (state.width, state.slots.dtype) != (block.width, block.dtype):
            raise ValueError("backend='gpu' runs learners together only on states of one width and number type; take backend='cpu'")
        settle(learner, state, block)
        key = (state.slots.shape[1], type(learner.loss), getattr(learner.loss, "labels", None))
        groups.setdefault(key, []).append(i)
    n, share = len(block), cp.cuda.runtime.memGetInfo()[0] // 4
    y = np.ascontiguousarray(y, np.float64)
    weight = np.ones(n) if weight is None else np.ascontiguousarray(weight, np.float64)
    traces: dict[int, Trace] = {}
    for members in groups.values():
        room, m = states[members[0]].slots.shape[1], states[members[0]].m
        rows = block_size(room, m, n)
        width = max(1, share // ((room + rows) * rows * block.dtype.itemsize))  # learners whose kernel values fit at once
        for first in range(0, len(members), width):
            part = members[first : first + width]
            group = Group(cp, [learners[i] for i in part], [states[i] for i in part], block, rows)
            traces.update(zip(part, group.learn(block, y, weight, share), strict=True))
    return [traces[i] for i in range(len(learners))]


def check(learner: Learner, block: Store) -> None:
    """One clear error for what the card does not do."""
    step, loss, budget = learner.step, learner.loss, learner.budget
    wrong = None
    if not isinstance(block, Rows):
        wrong = "examples other than dense rows of numbers"
    elif type(learner.kernel) not in KERNELS:
        wrong = f"the kernel {learner.kernel!r}"
    elif type(loss) not in LOSSES:
        wrong = f"the loss {loss!r}"
    elif not isinstance(step, Explicit | Implicit):
        wrong = f"the step {type(step).__name__}"
    elif isinstance(step, Implicit) and (isinstance(loss, Softmax) or (isinstance(loss, Structured) and step.exact)):
        wrong = f"the {'exact ' if step.exact else ''}implicit step for {type(loss).__name__}"
    elif budget.size is None or budget.drop not in ("oldest", "smallest"):
        wrong = "learning without a budget" if budget.size is None else f"drop={budget.drop!r}"
    if wrong:
        raise ValueError(
            f"backend='gpu' does not do {wrong}. It takes dense rows; the kernels RBF, Polynomial and Linear; explicit steps with "
            "any loss of onkel, implicit ones with all but Softmax and exact=True; a budget with drop='oldest' or 'smallest'. "
            "Take backend='cpu' for the rest"
        )


def cupy() -> Any:
    """CuPy, or an error that says what to do."""
    try:
        import cupy as cp

        cp.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise RuntimeError(
            f"backend='gpu' needs CuPy and a CUDA device ({error}); install onkel[gpu], or cupy-cuda12x for a CUDA 12 driver, "
            "or take backend='cpu'"
        ) from error
    return cp


@cache
def module(dtype: np.dtype[Any], loss: int, threads: int, labels: int, more: tuple[tuple[str, int], ...]) -> Any:
    """The CUDA code for one type of number, one loss and so on, compiled at first use (CuPy keeps it on disk)."""
    single, about = dtype == np.float32, np.finfo(dtype)
    named = {
        "REAL": "float" if single else "double",
        "EXP": "expf" if single else "exp",
        "SHARE": "1e-2" if single else "1e-4",  # as dense.finish_squares
        "EPS": repr(float(about.eps)),
        "TINY": repr(float(about.tiny)),
        "LARGEST": repr(float(about.max) * 1e-9),  # as scan.step
        "THE_LOSS": str(loss),
        "THREADS": str(threads),
        "PER": str(labels),  # labels of a lane
    }
    options = ("--std=c++17", "--fmad=false", *(f"-D{name}={value}" for name, value in (*named.items(), *more)))
    return cupy().RawModule(code=VALUES + SCAN, options=options)


def block_size(room: int, m: int, n: int) -> int:
    """Examples in a block: about as many as slots, so few that their scores fit in shared memory."""
    rows = 1024 if room >= 1024 else 512
    while rows > 128 and rows * m * 8 > 128 * 1024:
        rows //= 2
    while rows > 64 and rows // 2 >= n:
        rows //= 2
    return rows


class Group:
    """Learners of equal budget, loss and labels, on the card."""

    def __init__(self, cp: Any, learners: list[Learner], states: list[State], block: Rows, rows: int):
        self.cp, self.learners, self.states, self.rows = cp, learners, states, rows
        self.count, self.m, self.room, self.d = len(learners), states[0].m, states[0].slots.shape[1], block.width
        self.dtype, self.buffers = block.dtype, {}  # type: tuple[Any, dict[str, Any]]
        self.starts = [state.t for state in states]
        self.kernels = list(dict.fromkeys(learner.kernel for learner in learners))
        loss = LOSSES.index(type(learners[0].loss))
        alone = self.count <= cp.cuda.Device().attributes["MultiProcessorCount"]
        self.threads = min(max(128, rows), THREADS if alone else THREADS // 2)
        self.window = max(1, min(32, 1024 // self.m))  # examples that one warp learns before the others hear of it
        self._share_memory()
        labels = getattr(learners[0].loss, "labels", None)
        more = {
            "INSIDE": self.inside,
            "FLAT": int(labels is not None and np.array_equal(labels.cost, 1.0 - np.eye(self.m))),
            "RELATED": int(labels is not None and not labels.plain),
            "ALL_IMPLICIT": _alike(isinstance(learner.step, Implicit) for learner in learners),
            "ALL_SMALLEST": _alike(learner.budget.drop == "smallest" for learner in learners),
            "ALL_OFFSET": _alike(learner.offset for learner in learners),
            "ALL_MOVING": _alike(learner.nu is not None for learner in learners),
        }
        code = module(self.dtype, loss, self.threads, -(-self.m // 32), tuple(more.items()))
        self.finish, self.scan, self.settle = (code.get_function(name) for name in ("finish", "scan", "settle"))
        self.scan.max_dynamic_shared_size_bytes = self.shared

        self.cost = cp.asarray(np.zeros(1) if labels is None else np.ascontiguousarray(labels.cost))
        self.kappa = cp.asarray(np.zeros(1) if labels is None else np.ascontiguousarray(labels.kernel))
        self.shapes = cp.asarray(np.array([_shape(kernel) for kernel in self.kernels]))
        self.which = cp.asarray(np.array([self.kernels.index(learner.kernel) for learner in learners], np.int32))
        self.each = cp.asarray(np.arange(len(self.kernels), dtype=np.int32))

        nums = np.zeros((self.count, NUMBERS + self.m))
        ranks = np.full((self.count, self.room), FREE, np.uint32)
        coefs = np.empty((self.count, self.m, self.room), self.dtype)
        mags, kxxs = np.empty((2, self.count, self.room), self.dtype)
        self.points = cp.zeros((self.count, self.room, self.d), self.dtype)
        self.norms = cp.zeros((self.count, self.room), self.dtype)
        for i, state in enumerate(states):
            num, slots, order = state.num, state.slots, state.order
            nums[i, :NUMBERS] = num[at.N], num[at.USED], num[at.HEAD], num[at.SCALE], num[at.THETA], 0.0
            nums[i, NUMBERS:] = num[at.NUMBERS : at.NUMBERS + self.m]
            ranks[i, order] = np.arange(len(order))
            coefs[i], mags[i], kxxs[i] = slots[: self.m], slots[self.m + at.MAG], slots[self.m + at.KXX]
            if len(order):
                stored = state.store if state.store is not None else Rows(np.ascontiguousarray(slots[self.m + at.AUX :].T))
                self.points[i] = cp.asarray(stored.data)  # type: ignore[union-attr]
                self.norms[i] = cp.asarray(stored.norms)  # type: ignore[union-attr]
        self.nums, self.ranks, self.coefs = cp.asarray(nums), cp.asarray(ranks), cp.asarray(coefs)
        self.mags, self.kxxs = cp.asarray(mags), cp.asarray(kxxs)
        self.sources = cp.full((self.count, self.room), -1, np.int32)

    def _share_memory(self) -> None:
        """What of the loop's arrays fits in shared memory: the scores first, then what is kept for each slot."""
        limit = self.cp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
        real, rows, room, m = self.dtype.itemsize, self.rows, self.room, self.m
        deep = -(-self.window // CHUNK) * CHUNK
        digit = 8 if isinstance(self.learners[0].loss, Softmax) else real
        always = (4 * m * deep * real, 16 * deep, 8 * RULES, (56 + 2 * digit) * rows, 96 + m, *3 * (32 * deep * real,),
                  64 * real, 2 * m * real, 32 * -(-rows // 32) * real, 4 * rows, 8 * deep, 8 * m)  # fmt: skip
        slots = (room * real, 4 * room, 4 << (room - 1).bit_length())
        self.shared, self.inside = _together(always), 0
        for bit, parts in ((1, (8 * m * (rows + 1),)), (2, slots)):
            if self.shared + _together(parts) <= limit:
                self.shared, self.inside = self.shared + _together(parts), self.inside | bit

    def learn(self, block: Rows, y: Array, weight: Array, share: int) -> list[Trace]:
        n, cp = len(block), self.cp
        steps, plans = self._steps(n)
        rules = cp.asarray(self._rules(steps))
        scores = [np.empty((n, self.m)) for _ in self.learners]
        losses, wrongs, sizes = np.empty((self.count, n)), np.empty((self.count, n), bool), np.empty((self.count, n), np.int64)
        thetas = np.repeat([[state.num[at.THETA]] for state in self.states], n, axis=1)
        moving = any(learner.nu is not None for learner in self.learners)

        per_row = self.count * (8 * self.m + 21) + self.d * self.dtype.itemsize
        chunk = max(1, share // per_row // self.rows) * self.rows  # examples whose traces fit at once
        for first in range(0, n, chunk):
            here = slice(first, min(n, first + chunk))
            size = here.stop - first
            inputs = tuple(cp.asarray(np.ascontiguousarray(a)) for a in (y[here], weight[here], plans[:, here]))
            X, norms = cp.asarray(block.data[here]), cp.asarray(block.norms[here])
            traces = (
                cp.empty((self.count, size, self.m)),
                cp.empty((self.count, size)),
                cp.empty((self.count, size), np.bool_),
                cp.asarray(thetas[:, here]) if moving else cp.empty(1),
                cp.empty((self.count, size), np.int32),
            )
            for begin in range(0, size, self.rows):
                part = slice(begin, begin + self.rows)
                rank = np.uint32(self.room + first + begin)
                self._block(X[part], norms[part], begin, size, rank, (*inputs, rules), traces)
            for i in range(self.count):  # the card is busy: touch the memory that its results will need
                scores[i][here] = 0.0
            for i in range(self.count):
                traces[0][i].get(out=scores[i][here])
            losses[:, here], wrongs[:, here], sizes[:, here] = traces[1].get(), traces[2].get(), traces[4].get()
            if moving:
                thetas[:, here] = traces[3].get()
            self._raise_failures(first)
        self._write_back(n)
        return [
            Trace(
                scores[i][:, 0].copy() if state.scalar else scores[i],
                losses[i],
                wrongs[i],
                np.full(n, self.learners[i].step.eta) if steps[i] < 0 else plans[steps[i]].copy(),  # type: ignore[union-attr]
                thetas[i],
                sizes[i],
            )
            for i, state in enumerate(self.states)
        ]

    def _steps(self, n: int) -> tuple[list[int], NDArray[np.float64]]:
        """For each learner which row of the scheduled step sizes is its own, -1 for a constant one; and those rows."""
        plans: dict[Any, Array] = {}
        steps = []
        for learner, start in zip(self.learners, self.starts, strict=True):
            eta, lam = learner.step.eta, learner.step.lam  # type: ignore[union-attr]
            key = (eta, start)
            if not callable(eta):
                steps.append(-1)
                continue
            if key not in plans:
                plans[key] = etas(eta, start, n)
            if isinstance(learner.step, Explicit):
                small_enough(plans[key], lam)
            steps.append(list(plans).index(key))
        return steps, np.array(list(plans.values())) if plans else np.zeros((1, n))

    def _rules(self, steps: list[int]) -> NDArray[np.float64]:
        rules = np.zeros((self.count, RULES))
        for rule, learner, row in zip(rules, self.learners, steps, strict=True):
            step = learner.step
            assert isinstance(step, Explicit | Implicit)
            assert learner.budget.size is not None
            rule[IMPLICIT], rule[LAM], rule[C] = isinstance(step, Implicit), step.lam, step.C
            rule[NU], rule[OFFSET] = math.nan if learner.nu is None else learner.nu, learner.offset
            rule[SMALLEST], rule[BUDGET] = learner.budget.drop == "smallest", learner.budget.size
            rule[ETA], rule[ETA_ROW] = math.nan if callable(step.eta) else step.eta, row
            rule[KERNEL] = self.kernels.index(learner.kernel)
        return rules

    def _block(
        self, X: Any, norms: Any, begin: int, size: int, rank: Any, inputs: tuple[Any, ...], traces: tuple[Any, ...]
    ) -> None:
        """Kernel values of one block, the scores that it has at its start, the loop over it, and the points that were stored."""
        rows, d, cp = len(X), np.int32(self.d), self.cp
        flat = self.points.reshape(-1, self.d)
        K = self._buffer("K", self.count * self.room, rows)
        cp.dot(flat, X.T, out=K)
        self._kernel_values(K, K, X, norms, flat, self.norms, self.which, self.room)
        products = self._buffer("products", rows, rows)
        cp.dot(X, X.T, out=products)
        inner = self._buffer("inner", len(self.kernels) * rows, rows)
        self._kernel_values(inner, products, X, norms, X, norms, self.each, rows)
        starts = cp.matmul(self.coefs, K.reshape(self.count, self.room, rows))
        scratch = self.nums if self.inside & 1 else self._spare("scores", self.m * (self.rows + 1), np.float64)
        orders = self.sources if self.inside & 2 else self._spare("orders", 2 * self.room, np.int32)
        y, weight, plans, rules = inputs
        i, w = np.int32, np.int64
        self.scan(
            (self.count,), (self.threads,),
            (i(rows), i(self.room), i(self.m), i(self.window), w(begin), w(size), K, inner, starts, norms, y, weight, plans, rules,
             self.shapes, self.cost, self.kappa, self.nums, self.coefs, self.mags, self.ranks,
             self.sources, self.kxxs, scratch, orders, rank, *traces),
            shared_mem=self.shared,
        )  # fmt: skip
        self.settle((self.room, self.count), (128,), (self.sources, X, norms, self.points, self.norms, i(self.room), d))

    def _kernel_values(self, out: Any, products: Any, X: Any, xn: Any, Z: Any, zn: Any, which: Any, points: int) -> None:
        """From products to kernel values; Z holds the points of each learner, or is X itself, for each kernel."""
        rows, threads, same = len(X), 256, Z is X
        i = np.int32
        self.finish(
            ((rows * points + threads - 1) // threads, len(which)), (threads,),
            (out, products, np.int64(0 if same else rows * points), X, xn, Z, zn, i(0 if same else points), self.shapes, which,
             i(rows), i(points), i(self.d), i(same)),
        )  # fmt: skip

    def _buffer(self, name: str, rows: int, columns: int) -> Any:
        """A matrix in memory that serves one block after the other."""
        flat = self.buffers.get(name)
        if flat is None or flat.size < rows * columns:
            flat = self.buffers[name] = self.cp.empty(rows * columns, self.dtype)
        return flat[: rows * columns].reshape(rows, columns)

    def _spare(self, name: str, size: int, dtype: Any) -> Any:
        """Where each learner puts what does not fit in shared memory."""
        if name not in self.buffers:
            self.buffers[name] = self.cp.empty(self.count * size, dtype)
        return self.buffers[name]

    def _raise_failures(self, first: int) -> None:
        failed = self.nums[:, FAILED].get()
        if failed.any():
            i = int(np.flatnonzero(failed)[0])
            raise failure(at.NOT_FINITE, first + int(failed[i]) - 1)

    def _write_back(self, n: int) -> None:
        """The states as the CPU would have left them."""
        nums, ranks, coefs = self.nums.get(), self.ranks.get(), self.coefs.get()
        mags, kxxs = self.mags.get(), self.kxxs.get()
        for i, (state, start) in enumerate(zip(self.states, self.starts, strict=True)):
            num, slots, rank = state.num, state.slots, ranks[i].astype(np.int64)
            num[at.T] = start + n
            num[at.N], num[at.USED], num[at.HEAD], num[at.SCALE], num[at.THETA] = nums[i, :FAILED]
            num[at.NUMBERS : at.NUMBERS + self.m] = nums[i, NUMBERS:]
            before = np.append(state.born[state.order], np.zeros(self.room + 1, np.int64))
            state.born[:] = np.where(rank < self.room, before[np.minimum(rank, self.room)], start + rank - self.room + 1)
            state.born[ranks[i] == FREE] = -1
            slots[: self.m], slots[self.m + at.MAG], slots[self.m + at.KXX] = coefs[i], mags[i], kxxs[i]
            if state.store is None:
                slots[self.m + at.AUX :] = self.points[i].get().T
            else:
                self.points[i].get(out=state.store.data)  # type: ignore[union-attr]
                self.norms[i].get(out=state.store.norms)  # type: ignore[union-attr]


def _alike(values: Iterable[bool]) -> int:
    """1 or 0 if all are true or none is, else -1."""
    found = set(map(bool, values))
    return int(found.pop()) if len(found) == 1 else -1


def _together(parts: tuple[int, ...]) -> int:
    """Bytes of arrays that each begin at a multiple of 16."""
    return sum(-(-part // 16) * 16 for part in parts)


def _shape(kernel: Any) -> tuple[float, float, float, float]:
    """A kernel in the four numbers that cuda.py reads."""
    kind = KERNELS.index(type(kernel))
    if isinstance(kernel, RBF):
        return kind, -0.5 / (kernel.sigma * kernel.sigma), 0.0, 0.0
    if isinstance(kernel, Polynomial):
        return kind, kernel.gamma, kernel.coef0, kernel.degree
    return kind, 0.0, 0.0, 0.0
