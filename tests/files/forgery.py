"""Forged files of every kind, tried in processes forked from one warm parent, which are limited in time and memory.

    python -m tests.files.forgery --count 2000 --seed 1 --keep FOLDER

Each file is an honest one, taken apart, changed in one or more places and sealed again, as by someone who knows how.  It has to be
refused, or to make a model that learns on and stays finite: no crash, no hang, no more than 256 MB beyond what was there before.
"""

import argparse
import collections
import copy
import faulthandler
import io
import json
import math
import os
import random
import resource
import signal
import sys
import traceback
import zipfile
from pathlib import Path

import numpy as np
from numba.core import event
from scipy.sparse import csr_matrix

import onkel
from onkel import persist
from onkel.commands.info import facts
from onkel.commands.scorecard import start
from tests.files.forge import taken_apart, with_arrays
from tests.files.models import LEARNERS, RBF, Hinge, data, slow_schedule, spectrum

MEMORY, SECONDS = 256 * 2**20, 20  # CPU
REFUSED, TAKEN, TOLD, COLD, FAILED = range(5)
X, Y = data(260)
NAMES = np.where(Y > 0, "yes", "no")
SPARSE = csr_matrix(
    np.where(np.random.default_rng(1).random((260, 30)) < 0.2, np.random.default_rng(2).normal(size=(260, 30)), 0.0)
)
WIDE = np.random.default_rng(3).normal(size=(260, 1000))
WORDS = ["".join(np.random.default_rng(i).choice(list("acgt"), 12)) for i in range(260)]
TREE = onkel.Labels.tree([-1, 0, 0, 1, 1])
CODES = (np.abs(X[:, 0]) * 2).astype(int) % 3
FRAMES = np.random.default_rng(0).integers(0, 255, (8, 12, 20, 3), dtype=np.uint8)
GIVEN = {"kernels": {"spectrum": spectrum}, "functions": {"slow_schedule": slow_schedule}}


# --- honest models, and what is done with them -----------------------------------------------------------------------------------


def learned(learner, X=X, y=Y, n=100):
    return learner, learner.learn(learner.init(), X[:n], y[:n])[0]


def of_words(n):
    return onkel.KernelClassifier(spectrum, budget=8).fit(WORDS[:n], NAMES[:n])


def of_river(n):
    from onkel import river

    model = river.KernelClassifier(budget=16)
    for x, y in zip(X[:n], NAMES[:n]):
        model.learn_one(dict(zip("abc", x.tolist())), str(y))
    return model


def of_frames(rule):
    from onkel.video import BackgroundSubtractor

    camera = BackgroundSubtractor(rule, threads=1)
    for frame in FRAMES[:4]:
        camera.apply(frame)
    return camera


def of_table():
    run = start("classes", ["a", "b", "c"], "y", budget=16)
    run.learn(X[:150], NAMES[:150].tolist())
    return run


def of_columns(n):
    model = onkel.AutoClassifier(budget=200_000)
    return model.partial_fit(X[:n], NAMES[:n])


KINDS = {
    **{name: lambda name=name: learned(LEARNERS[name]) for name in LEARNERS},
    "smallest": lambda: learned(onkel.silk(RBF, Hinge, budget=16, drop="smallest")),
    "tree": lambda: learned(onkel.silk(RBF, onkel.Structured(TREE), budget=16), X, CODES),
    "softmax": lambda: learned(onkel.silk(RBF, onkel.Softmax(onkel.Labels.flat(3)), budget=16), X, CODES),
    "wide": lambda: learned(onkel.silk(onkel.RBF(20.0), Hinge, budget=150), WIDE),
    "sparse": lambda: learned(onkel.silk(RBF, Hinge, budget=16), SPARSE),
    "words": lambda: learned(onkel.silk(spectrum, Hinge, budget=10), WORDS),
    "fresh": lambda: (LEARNERS["silk"], LEARNERS["silk"].init()),
    "classifier": lambda: onkel.KernelClassifier(budget=16).partial_fit(X[:150], NAMES[:150]),
    "waiting": lambda: onkel.KernelClassifier(budget=16).partial_fit(X[:30], NAMES[:30]),
    "waiting sparse": lambda: onkel.KernelClassifier(budget=16).partial_fit(SPARSE[:50], NAMES[:50]),
    "related": lambda: onkel.KernelClassifier(budget=16, gamma=0.5, labels=[-1, 0, 0, 1, 1]).partial_fit(X[:150], CODES[:150]),
    "gaps": lambda: onkel.KernelClassifier(budget=16, missing="ignore").partial_fit(X[:30], NAMES[:30]),
    "regressor": lambda: onkel.KernelRegressor(budget=16).partial_fit(X[:150], X[:150, 0]),
    "novelty": lambda: onkel.NoveltyDetector(budget=16).partial_fit(X[:150]),
    "unfitted": lambda: onkel.KernelClassifier(budget=7),
    "objects": lambda: of_words(40),
    "river": lambda: of_river(150),
    "river waiting": lambda: of_river(30),
    "auto": lambda: of_columns(150),
    "run": of_table,
    "fold": lambda: of_frames("fold"),
    "silk frames": lambda: of_frames("silk"),
}


def use(kind, model):
    """Learn on by every door, then insist on finite numbers."""
    if kind in ("fold", "silk frames"):
        for frame in FRAMES[4:]:
            model.apply(frame)
        assert np.isfinite(model.scores).all()
        assert all(np.isfinite(a).all() for m in model._models for a in m.arrays().values() if a.dtype.kind == "f")
    elif isinstance(model, tuple):
        learner, state = model
        rows, y = {"wide": (WIDE, Y), "sparse": (SPARSE, Y), "words": (WORDS, Y)}.get(kind, (X, Y))
        if learner.loss.targets == "codes":
            y = CODES
        for part in (slice(100, 101), slice(101, 140)):
            state, _ = learner.learn(state, rows[part], y[part])
        finite(state)
        assert np.isfinite(learner.score(state, rows[:20])).all()
    elif hasattr(model, "tally"):
        model.learn(X[150:200], NAMES[150:200].tolist())
        model.predict(X[:20])
        json.dumps(model.report())
        finite(model.model.state_)
    elif kind.startswith("river"):
        for x, y in zip(X[150:240], NAMES[150:240]):
            x = dict(zip("abc", x.tolist()))
            model.learn_one(x, str(y))
            model.predict_proba_one(x)
        finite(model.estimator.state_ if hasattr(model, "estimator") else model._made.state_)
    else:
        estimator(kind, model)
    persist.dumps(model)


def estimator(kind, model):
    rows = {"waiting sparse": SPARSE, "objects": WORDS}.get(kind, X)
    y = {"regressor": X[:, 0], "related": CODES}.get(kind, NAMES)
    for part in (slice(150, 180), slice(180, 240)):
        model.partial_fit(*((rows[part],) if kind == "novelty" else (rows[part], y[part])))
    if rows is not SPARSE:
        for i in range(240, 250):
            model.learn_one(*((rows[i],) if kind == "novelty" else (rows[i], y[i])))
            if hasattr(model, "predict_one"):
                model.predict_one(rows[i])
    if hasattr(model, "state_"):
        finite(model.state_)
    for method in ("predict", "decision_function", "predict_proba", "predict_interval", "score_samples"):
        if hasattr(model, method):
            answers = getattr(model, method)(rows[:20])
            assert answers.dtype.kind not in "fc" or np.isfinite(answers).all(), method
    model.snapshot()


def finite(state):
    for part in (state.coef, state.trace_coef, np.asarray(state.offset)):
        assert np.isfinite(part).all()


# --- forgeries -------------------------------------------------------------------------------------------------------------------

ODD = [
    *(-1, 0, 1, 2, 3, 15, 17, 3000, 10**6, 10**8, 2**31, 2**62, 10**30, -(2**40), 0.5, -1.0, 1e-300, 1e300),
    *(True, False, None, "", "x", "no", "oldest", "project", "merge", "ignore", "\x1b[2J", [], {}, [[]], {"a": 1}),
    *({"is": "float", "text": text} for text in ("nan", "inf", "-inf", "1e400")),
    *({"is": "tuple", "items": []}, {"is": "array", "name": "absent"}, {"is": "Labels", "flat": 5}, {"is": "RBF", "sigma": 1e-200}),
    {"is": "number", "dtype": "|S1", "value": 3_000_000_000},
    {"is": "number", "dtype": "<f8", "value": {"is": "float", "text": "nan"}},
    {"is": "objects", "shape": [2**40], "items": []},
    {"is": "Budget", "size": 10**9, "drop": "merge", "window": None},
    {"is": "bytes", "hex": "00"},
]
VALUES = [-2, -1, 0, 1, 7, 30, 127, 1e5, 999_999, 2**31 - 1, 2**40, math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-300, 1e20]


def ways(tree, path=()):
    """The ways to everything in a tree."""
    for key, part in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield (*path, key)
        yield from ways(part, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def change_header(head, draw):
    """One change somewhere in the model's tree."""
    way = draw.choice(list(ways(head["model"], ("model",))))
    inner, key = at(head, way[:-1]), way[-1]
    old = inner[key]
    if isinstance(old, list) and draw.random() < 0.6:
        more = [draw.choice(old or [0]) for _ in range(draw.choice([1, 3, 1000]))]
        names = [f"c{i}" for i in range(draw.choice([1, 5, 998]))]
        inner[key] = draw.choice([[], old[:-1], old + more, old + names, old[::-1], old + old, [old], [0, *old]])
    elif isinstance(old, dict) and draw.random() < 0.6:
        part = draw.choice(list(ways(old)) or [()])
        if part and draw.random() < 0.5:
            at(old, part[:-1]).__class__ is dict and at(old, part[:-1]).pop(part[-1])
        else:
            inner[key] = copy.deepcopy(at(head, draw.choice(list(ways(head["model"], ("model",))))))
    elif type(old) in (int, float) and draw.random() < 0.5:
        inner[key] = draw.choice([old + 1, old - 1, -old, old * 2, old * 1000, old + 0.5, old * 10**6, 10**9, -5])
    else:
        inner[key] = copy.deepcopy(draw.choice(ODD))


def change_array(array, draw):
    """The same array with odd values, of another shape, or of another type."""
    how = draw.choice(["value", "value", "value", "all", "shape", "type", "order"])
    array = array.copy()
    with np.errstate(all="ignore"):
        if how in ("value", "all") and array.size and array.dtype.kind in "iufb":
            value = draw.choice(VALUES)
            if array.dtype.kind in "iu":
                value = (
                    0 if not math.isfinite(value) else int(min(max(value, np.iinfo(array.dtype).min), np.iinfo(array.dtype).max))
                )
            where = slice(None) if how == "all" else [draw.randrange(array.size) for _ in range(draw.choice([1, 1, 5, 50]))]
            array.ravel()[where] = value
        elif how == "shape":
            axis = draw.randrange(array.ndim) if array.ndim else 0
            made = [array.ravel(), array[None], array.T, array[:0], array.reshape(-1)[: array.size // 2], np.array(3.0)]
            if array.size:
                made += [
                    np.concatenate([array, array], axis),
                    array.take(range(array.shape[axis] - 1), axis),
                    np.zeros((0, 0)),
                    array[..., ::2],
                ]
            array = draw.choice(made)
        elif how == "type":
            array = array.astype(draw.choice("<f4 <f8 <i8 <i4 |i1 |u1 <U8 |S3 |b1 <M8[s] >f8 <f2".split()))
        elif array.size:
            array = array.ravel()[np.random.default_rng(draw.randrange(99)).permutation(array.size)].reshape(array.shape)
    return np.ascontiguousarray(array)


def forged(members, head, draw):
    """A changed file."""
    head, changed = json.loads(json.dumps(head)), {}
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        if head["arrays"] and draw.random() < 0.45:
            name = draw.choice(sorted(head["arrays"]))
            array = changed[name] if name in changed else np.load(io.BytesIO(members[f"{name}.npy"]))
            changed[name] = change_array(array, draw)
        else:
            change_header(head, draw)
    return with_arrays(members, head, changed)


# --- trials ----------------------------------------------------------------------------------------------------------------------


class Cold(BaseException):
    """Something has to be compiled that no honest model of this program needed: another type of kernel, loss or number."""


class NoCompiling(event.Listener):
    def on_start(self, what):
        raise Cold

    def on_end(self, what):
        pass


def verdict(kind, blob):
    try:
        for name, value in facts(persist._header(zipfile.ZipFile(io.BytesIO(blob)), len(blob))):
            assert isinstance(name + value, str)
    except persist.BadFile as error:
        return REFUSED, str(error)
    try:
        model = persist._read(io.BytesIO(blob), "bytes", persist.Given(**GIVEN))[0]
    except persist.BadFile as error:
        return (FAILED, "refused for want of memory") if "there is memory" in str(error) else (REFUSED, str(error))
    try:
        use(kind, model)
    except (ValueError, TypeError, FloatingPointError, ImportError) as error:
        return TOLD, f"{type(error).__name__}: {error}"
    except MemoryError:
        if getattr(model, "model_", 0) is None or kind in ("fresh", "unfitted"):  # takes what its parameters ask for
            return TOLD, "memory"
        raise
    return TAKEN, ""


def trial(kind, blob):
    """What comes of it, and what it said, found out in a process of its own."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        faulthandler.disable()
        code, said = FAILED, "no verdict"
        try:
            with open("/proc/self/statm") as sizes:
                now = int(sizes.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, resource.RLIM_INFINITY))
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(15 * SECONDS)
            event.register("numba:compile", NoCompiling())
            code, said = verdict(kind, blob)
        except Cold:
            code, said = COLD, ""
        except BaseException:
            said = traceback.format_exc(limit=-4)
        os.write(into, said.encode(errors="replace")[:4000])
        os._exit(code)
    os.close(into)
    with open(out, "rb") as stream:
        said = stream.read().decode(errors="replace")
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return FAILED, f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return os.WEXITSTATUS(status), said


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args(arguments)
    honest = {}
    for kind in given.kinds.split(","):
        blob = persist.dumps(KINDS[kind]())
        for _ in range(2):
            use(kind, persist._read(io.BytesIO(blob), "bytes", persist.Given(**GIVEN))[0])
        members = taken_apart(blob)
        honest[kind] = members, json.loads(members["onkel.json"])
    tally, failures = collections.Counter(), []
    for i in range(given.count):
        kind = list(honest)[i % len(honest)]
        blob = forged(*honest[kind], random.Random(f"{given.seed} {i}"))
        code, said = trial(kind, blob)
        tally[("refused", "taken", "told", "cold", "FAILED")[code]] += 1
        if code == FAILED:
            failures.append(i)
            print(f"{kind} {i}: {said}", flush=True)
            if given.keep:
                given.keep.mkdir(exist_ok=True)
                (given.keep / f"{kind}-{i}.onkel".replace(" ", "-")).write_bytes(blob)
    print(*(f"{what}={n}" for what, n in tally.items()))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
