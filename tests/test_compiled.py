"""The disk cache: machine code is found again, and a cache that can no longer be read is made anew."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path

import numba

SOURCE = """
from onkel.compiled import compiled

@compiled
def twice(x):
    return x + x
"""


def fresh(file: Path):
    """The compiled function of that file, as a new process would see it."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.twice


def misses(function) -> int:
    assert function(1.5) == 3.0
    return sum(function.stats.cache_misses.values())


def test_an_index_that_names_a_class_that_has_moved_is_as_good_as_none(tmp_path):
    file = tmp_path / "doubled.py"
    file.write_text(SOURCE)
    first = fresh(file)
    assert misses(first) == 1
    assert misses(fresh(file)) == 0
    index = Path(first._cache._cache_file._index_path)
    index.write_bytes(pickle.dumps(numba.__version__) + b"conkel.losses\nMoved\n.")
    assert misses(fresh(file)) == 1
    assert misses(fresh(file)) == 0
