"""The CUDA C of one group: the files of this folder, and between them the formulas that its loss and its kernels bring along."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Rule = IntEnum("Rule", "IMPLICIT LAM C NU OFFSET SMALLEST BUDGET ETA ETA_ROW KERNEL", start=0)  # what a learner never changes
Cell = IntEnum("Cell", "N USED HEAD SCALE THETA FAILED", start=0)  # what changes, followed by the offsets

NUMBERS = 3  # of a kernel, behind the place of its class
OF_ONE_SCORE = {
    "value": "double value(double f, double y, double theta)",
    "mistake": "bool mistake(double f, double y, double theta)",
    "violated": "bool violated(double f, double y, double theta)",
    "slope": "double slope(double f, double y, double theta)",  # of an explicit step: at a kink it moves
    "prox": "double prox(double z, double y, double theta, double cap, double k, double gain)",  # gain: 1 / k, or 0
}


def is_softmax(loss: Any) -> bool:
    """Whether all labels move; else a label and its rival do."""
    return bool(loss.labelled) and loss.cuda["moves"] == "all"


def numbers_of(kernel: Any, kinds: tuple[Any, ...]) -> tuple[float, ...]:
    """A kernel in four numbers: which of the classes, and what its formula calls p[0], p[1], p[2]."""
    given = kernel.card()
    if len(given) > NUMBERS:
        raise ValueError(f"{type(kernel).__name__}: card() gives {len(given)} numbers; the card takes at most {NUMBERS}")
    return (kinds.index(type(kernel)), *given, *(0.0,) * (NUMBERS - len(given)))


def source(loss: Any, kernels: Iterable[Any]) -> str:
    """The whole of the code."""
    folder = Path(__file__).parent
    numbers, values, scan = ((folder / f"{name}.cu").read_text(encoding="utf-8") for name in ("numbers", "values", "scan"))
    names = f"enum {{ {', '.join(Rule.__members__)}, RULES }};\nenum {{ {', '.join(Cell.__members__)}, NUMBERS }};\n"
    return "\n".join((numbers, names, _loss(loss), _kernels(list(kernels)), values, scan))


def _body(formula: str) -> str:
    return formula if "return" in formula else f"return {formula};"


def _loss(loss: Any) -> str:
    theta = loss.theta
    kinds = {"ONE_SCORE": not loss.labelled, "SOFTMAX": is_softmax(loss), "TUBE": theta.tube, "LOWEST": theta.lowest}
    lines = [f"#define {name} {float(value) if name == 'LOWEST' else int(value)}" for name, value in kinds.items()]
    if not loss.labelled:
        lines += [f"__device__ {head} {{ {_body(loss.cuda.get(name, '0'))} }}" for name, head in OF_ONE_SCORE.items()]
    return "\n".join(lines)


def _kernels(kernels: list[Any]) -> str:
    def switch(head: str, cases: Iterable[str]) -> str:
        listed = "\n".join(f"        case {i}: {{ {case} }}" for i, case in enumerate(cases))
        return f"__device__ __forceinline__ {head}\n{{\n    switch ((int)kernel[0]) {{\n{listed}\n    }}\n    return 0;\n}}"

    numbers = f"const real p[{NUMBERS}] = {{{', '.join(f'(real)kernel[{i + 1}]' for i in range(NUMBERS))}}};"
    itself = {"product": "norm", "square": "0", "constant": "0"}  # what a point's quantity with itself is
    return "\n".join(
        (
            switch("real transform(const double* kernel, real q)", (f"{numbers} {_body(k.cuda)}" for k in kernels)),
            switch("bool of_distance(const double* kernel)", (f"return {int(k.geometry == 'square')};" for k in kernels)),
            switch(
                "double with_itself(const double* kernel, real norm)",
                (
                    f"return (double)transform(kernel, {itself[k.geometry]});" if k.own is None else f"return {float(k.own)!r};"
                    for k in kernels
                ),
            ),
        )
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
def module(
    dtype: np.dtype[Any], loss: Any, kernels: tuple[Any, ...], threads: int, labels: int, more: tuple[tuple[str, int], ...]
) -> Any:
    """The code for one type of number, one loss and so on, compiled at first use (CuPy keeps it on disk)."""
    single, about = dtype == np.float32, np.finfo(dtype)
    named = {
        "REAL": "float" if single else "double",
        "EXP": "expf" if single else "exp",
        "SQRT": "sqrtf" if single else "sqrt",
        "SHARE": "1e-2" if single else "1e-4",  # as dense.finish_squares
        "EPS": repr(float(about.eps)),
        "TINY": repr(float(about.tiny)),
        "LARGEST": repr(float(about.max) * 1e-9),  # as the loop's step
        "THREADS": str(threads),
        "PER": str(labels),  # labels of a lane
    }
    options = ("--std=c++17", "--fmad=false", *(f"-D{name}={value}" for name, value in (*named.items(), *more)))
    return cupy().RawModule(code=source(loss, kernels), options=options)
