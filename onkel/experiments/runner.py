"""Runs parts side by side, keeps each finished one on disk, says how long the rest will take.

A part's file is named after everything that decides its numbers: the setting, its arguments, the code of its experiment
and of the learner. An interrupted run goes on where it stopped; a changed algorithm is computed again.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import multiprocessing
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from pathlib import Path

import numpy as np

from onkel.saved.atomic import replacing
from onkel.terminal.progress import Progress

from .experiment import Experiment, Numbers, Part, Setting

# What decides the numbers besides an experiment's own file; the estimators, files and the command line do not.
FIGURES = Path(__file__).resolve().parent / "figures"
DECIDING = ("core", "video", "experiments/shared", "streams.py", "data.py", "theory.py")


def run(
    experiments: Iterable[Experiment],
    setting: Setting,
    out: Path,
    jobs: int = 1,
    fresh: bool = False,
    finished: Callable[[Experiment, dict[str, Numbers]], None] | None = None,
) -> dict[str, str]:
    """Compute every part that is not yet on disk; call `finished` for each experiment whose parts are all there.

    Returns the experiments that failed, with the reason. The longest parts start first.
    """
    waiting: list[tuple[Experiment, Part, Path]] = []
    done: dict[str, dict[str, Numbers]] = {}
    open_parts: dict[str, int] = {}
    order: dict[str, list[str]] = {}
    failed: dict[str, str] = {}
    experiments = list(experiments)
    for experiment in experiments:
        parts = experiment.parts(setting)
        done[experiment.name], open_parts[experiment.name] = {}, len(parts)
        order[experiment.name] = [part.name for part in parts]
        for part in parts:
            file = out / "parts" / experiment.name / f"{slug(part.name)}-{fingerprint(experiment, part, setting)}.npz"
            if file.exists() and not fresh:
                done[experiment.name][part.name] = read(file)
                open_parts[experiment.name] -= 1
            else:
                waiting.append((experiment, part, file))
    by_name = {experiment.name: experiment for experiment in experiments}
    cost, paid = sum(part.cost for _, part, _ in waiting), 0.0
    progress = Progress()

    def settle(name: str) -> None:
        if open_parts[name] == 0 and finished is not None and name not in failed:
            try:
                finished(by_name[name], {part: done[name][part] for part in order[name]})
            except Exception:
                failed[name] = traceback.format_exc()

    for name in by_name:
        settle(name)
    waiting.sort(key=lambda item: -item[1].cost)
    for count, ((experiment, part, file), outcome) in enumerate(compute(waiting, setting, jobs), 1):
        if isinstance(outcome, str):
            failed.setdefault(experiment.name, f"part {part.name}:\n{outcome}")
        else:
            write(file, outcome)
            done[experiment.name][part.name] = outcome
            open_parts[experiment.name] -= 1
        paid += part.cost
        progress.show(f"{count} of {len(waiting)} parts, {experiment.name}: {part.name}", paid / cost)
        settle(experiment.name)
    progress.close()
    return failed


def compute(
    waiting: list[tuple[Experiment, Part, Path]], setting: Setting, jobs: int
) -> Iterator[tuple[tuple[Experiment, Part, Path], Numbers | str]]:
    """Pairs of item and result, in order of completion; an error is returned as its text."""
    if jobs <= 1 or len(waiting) <= 1:
        for item in waiting:
            yield item, attempt(item[1].compute, setting, dict(item[1].arguments))
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes share the cores among themselves
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running: dict[Future[Numbers | str], tuple[Experiment, Part, Path]] = {}
        queue = iter(waiting)
        try:
            for item in queue:
                running[pool.submit(attempt, item[1].compute, setting, dict(item[1].arguments))] = item
                if len(running) < jobs + 1:
                    continue
                yield from reap(running)
            while running:
                yield from reap(running)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def reap(
    running: dict[Future[Numbers | str], tuple[Experiment, Part, Path]],
) -> Iterator[tuple[tuple[Experiment, Part, Path], Numbers | str]]:
    ready, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in ready:
        item = running.pop(future)
        error = future.exception()
        yield item, (f"{type(error).__name__}: {error}" if error else future.result())


def attempt(function: Callable[..., Numbers], setting: Setting, arguments: dict[str, object]) -> Numbers | str:
    start, cpu = time.perf_counter(), time.process_time()
    try:
        result = function(setting, **arguments)
    except Exception:
        return traceback.format_exc()
    return {**result, "seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}


# --- parts on disk ------------------------------------------------------------------------------------------


def write(file: Path, numbers: Numbers) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file, flush=False) as stream:  # a part is there whole or not at all
        np.savez_compressed(stream, **{key: np.asarray(value) for key, value in numbers.items()})


def read(file: Path) -> Numbers:
    with np.load(file, allow_pickle=False) as stored:
        return {key: value.item() if value.ndim == 0 else value for key, value in stored.items()}


def slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")


def fingerprint(experiment: Experiment, part: Part, setting: Setting) -> str:
    text = repr((setting.size, setting.seed, sorted(part.arguments.items()), part.compute.__name__, core_code()))
    own = {Path(inspect.getfile(sys.modules[part.compute.__module__])), FIGURES / f"{experiment.name}.py"}
    return hashlib.sha256("".join([text, *(code(file) for file in sorted(own) if file.exists())]).encode()).hexdigest()[:16]


@cache
def core_code() -> str:
    root = Path(__file__).resolve().parents[1]
    files = [file for name in DECIDING for file in ([root / name] if name.endswith(".py") else sorted((root / name).rglob("*.py")))]
    return hashlib.sha256("".join(code(file) for file in files).encode()).hexdigest()


@cache
def code(file: Path) -> str:
    """The code of a file without comments, docstrings, and what only tells of the numbers: rewording computes nothing again."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not only_reports(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def only_reports(node: ast.stmt) -> bool:
    """Does this statement of an experiment's file only list, judge or draw?"""
    if isinstance(node, ast.FunctionDef):
        return node.name in ("parts", "claims", "table", "draw")
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "EXPERIMENT"
