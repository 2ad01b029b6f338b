"""Models as plain data: a tree of JSON values and, beside it, arrays.

``describe`` takes a value apart, ``build`` puts it together again.  Nothing is ever looked up by a name that stands in the data,
except among the classes of values (a class enters itself there when it is defined, core/maths/value.py) and among the functions
that the caller hands in, so building runs no code but constructors, which check what they are given.

    None, True, 3, 0.5, "text"          as they are
    a list, a dict with text keys       as they are, their entries described in turn
    an array                            {"is": "array", "name": ...}, the array itself is put aside under that name
    a value of DEFINED, a learner       {"is": "RBF", "sigma": 1.0}: its class and its fields
    what a user wrote in Python         {"is": "kernel", "name": "spectrum"}: the name alone; build asks the caller for it
    (learner, state)                    {"is": "learned", "learner": ..., "state": ...}; build compares the two, number by number
    a tuple, other dicts, numpy's numbers, infinities      {"is": "tuple", ...} and so on
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from onkel import theory as _theory  # noqa: F401  defines a value that files hold, as do labelled and missing
from onkel.core.learner import Learner
from onkel.core.maths import approximate as _approximate  # noqa: F401
from onkel.core.maths import labelled as _labelled  # noqa: F401
from onkel.core.maths.kernels import Pair
from onkel.core.maths.labels import Labels
from onkel.core.maths.user_kernel import Matrix, Pairwise, kernel
from onkel.core.maths.user_loss import User
from onkel.core.maths.value import DEFINED
from onkel.core.points import missing as _missing  # noqa: F401
from onkel.core.points.dense import Array, Rows
from onkel.core.points.objects import Objects
from onkel.core.points.sparse import Sparse
from onkel.core.state import State
from onkel.saved import states

_DEEPEST = 16  # kernels inside each other; compiling deeper ones takes ever longer, and cannot be done from some thirty on
_FLAT = 1024  # classes; beyond, an unstructured label set is kept as arrays, whose size the file has to prove

KINDS = "biufUSMm"  # what an array may hold: numbers, text, times; never Python objects


class Given(NamedTuple):
    """What the caller hands in by name, since no file can hold it: kernels, losses, functions of t."""

    kernels: Mapping[str, Any] = {}
    losses: Mapping[str, Any] = {}
    functions: Mapping[str, Any] = {}

    def find(self, kind: str, name: str) -> Any:
        plural = {"kernel": "kernels", "loss": "losses", "function": "functions"}[kind]
        among = getattr(self, plural)
        if name not in among:
            raise ValueError(
                f"this model uses the {kind} {name!r}, which was written in Python and is not in the file; "
                f"give it: load(path, {plural}={{{name!r}: ...}})"
            )
        return among[name]


# --- taking apart ----------------------------------------------------------------------------------------------------------------


def describe(value: Any, arrays: dict[str, Array], path: str = "model", users: dict[tuple[str, str], Any] | None = None) -> Any:
    """value as JSON; arrays are put aside under the names that the JSON then holds."""
    users = {} if users is None else users

    def inside(part: Any, name: str) -> Any:
        return describe(part, arrays, f"{path}.{name}", users)

    def fields(kind: str, part: Any, names: Any) -> dict[str, Any]:
        return {"is": kind, **{name: inside(getattr(part, name), name) for name in names}}

    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"is": "float", "text": repr(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return {"is": "objects", "shape": list(value.shape), "items": inside(value.ravel().tolist(), "items")}
        if value.dtype.kind not in KINDS:
            raise TypeError(f"{path}: an array of {value.dtype} cannot be saved; arrays hold numbers, text or times")
        name = path if re.fullmatch(r"[\w.]{1,99}", path, re.ASCII) and path not in arrays else f"array{len(arrays)}"
        arrays[name] = value
        return {"is": "array", "name": name}
    if isinstance(value, np.generic):
        return {"is": "number", "dtype": value.dtype.str, "value": inside(value.item(), "value")}
    if type(value) is list:
        return [inside(item, str(i)) for i, item in enumerate(value)]
    if type(value) is bytes:
        return {"is": "bytes", "hex": value.hex()}
    if type(value) is dict:
        if "is" not in value and all(type(key) is str for key in value):
            return {key: inside(item, key) for key, item in value.items()}
        return {"is": "dict", "items": [[inside(k, f"{i}k"), inside(v, str(i))] for i, (k, v) in enumerate(value.items())]}
    if type(value) is tuple:
        if len(value) == 2 and isinstance(value[0], Learner) and isinstance(value[1], State):
            return {"is": "learned", "learner": inside(value[0], "learner"), "state": inside(value[1], "state")}
        return {"is": "tuple", "items": inside(list(value), "items")}
    if type(value) is Learner:
        return fields("Learner", value, ("kernel", "loss", "step", "budget", "nu", "offset"))
    if type(value) is Labels:
        if value.m <= _FLAT and value == Labels.flat(value.m):
            return {"is": "Labels", "flat": value.m}
        return fields("Labels", value, ("cost", "kernel"))
    if type(value) is State:
        return {"is": "State", **{name: inside(part, name) for name, part in states.parts(value).items()}}
    if type(value) is Rows:
        return fields("Rows", value, ("data",))
    if type(value) is Sparse:
        return fields("Sparse", value, ("begin", "length", "indices", "data", "width", "top", "norms", "sums"))
    if type(value) is Objects:
        return fields("Objects", value, ("items",))
    if type(value) is Matrix and _is_defined(value.function):
        return fields("Matrix", value, ("function",))
    if isinstance(value, Matrix | Pairwise):
        return {**_named("kernel", value.function, value.function, users), "pairwise": isinstance(value, Pairwise)}
    if isinstance(value, User):
        return _named("loss", value.written[0], value.written, users)
    if _is_defined(value):
        return fields(type(value).__name__, value, value._fields)
    if callable(value) and not isinstance(value, type):
        return _named("kernel" if path.endswith("kernel") else "function", value, value, users)
    raise TypeError(
        f"{path}: a value of type {type(value).__qualname__} cannot be saved without running code on loading; numbers, text, "
        "arrays, lists, dicts and onkel's own kernels, losses and steps can"
    )


def _is_defined(value: Any) -> bool:
    return DEFINED.get(type(value).__name__) is type(value)


def _named(kind: str, function: Any, identity: Any, users: dict[tuple[str, str], Any]) -> dict[str, str]:
    name = getattr(function, "__name__", type(function).__name__)
    if users.setdefault((kind, name), identity) != identity:
        raise ValueError(f"two different {kind} functions of this model are called {name!r}; give them names of their own")
    return {"is": kind, "name": name}


# --- putting together ------------------------------------------------------------------------------------------------------------


def build(tree: Any, arrays: Mapping[str, Array], given: Given) -> Any:
    """The value that ``describe`` took apart; ValueError, TypeError or KeyError where the tree does not make sense."""
    if _deepest_kernel(tree) > _DEEPEST:
        raise ValueError(f"sums and products of kernels more than {_DEEPEST} deep")
    if sum(m * m for m in _flat_sets(tree)) > _FLAT * _FLAT:  # matrices of m x m, the one thing that is larger than its description
        raise ValueError(f"more classes in flat label sets than {_FLAT}")
    return _build(tree, arrays, given)


def _deepest_kernel(tree: Any) -> int:
    """How many kernels stand inside each other."""
    inside = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    depth = max(map(_deepest_kernel, inside), default=0)
    return depth + (isinstance(tree, dict) and _is_pair(tree.get("is")))


def _is_pair(name: Any) -> bool:
    return isinstance(name, str) and name in DEFINED and issubclass(DEFINED[name], Pair)


def _flat_sets(tree: Any) -> Iterator[int]:
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _flat_sets(part)
    if isinstance(tree, dict) and tree.get("is") == "Labels" and "flat" in tree:
        if type(tree["flat"]) is not int or tree["flat"] < 1:
            raise ValueError(f"a flat label set of {tree['flat']!r} classes")
        yield tree["flat"]


def _build(tree: Any, arrays: Mapping[str, Array], given: Given) -> Any:
    def inside(part: Any) -> Any:
        return _build(part, arrays, given)

    if isinstance(tree, list):
        return [inside(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "is" not in tree:
        return {key: inside(item) for key, item in tree.items()}
    kind, rest = tree["is"], {key: item for key, item in tree.items() if key != "is"}
    if kind in ("kernel", "loss", "function"):
        found = given.find(kind, rest["name"])
        return kernel(found) if rest.get("pairwise") and not isinstance(found, Pairwise) else found
    if kind == "array":
        return arrays[rest["name"]]
    if kind == "objects":
        items = np.empty(len(rest["items"]), object)
        items[:] = inside(rest["items"])
        return items.reshape(rest["shape"])
    if kind == "number":
        return _number(np.dtype(rest["dtype"]), inside(rest["value"]))
    if kind == "float":
        return float(rest["text"])
    if kind == "bytes":
        return bytes.fromhex(rest["hex"])
    if kind == "tuple":
        return tuple(inside(rest["items"]))
    if kind == "dict":
        return {inside(key): inside(item) for key, item in rest["items"]}
    if kind == "learned":
        learner, state = inside(rest["learner"]), inside(rest["state"])
        states.check(learner, state)
        return learner, state
    if kind == "Labels" and "flat" in rest:
        return Labels.flat(rest["flat"])
    parts = {key: inside(item) for key, item in rest.items()}
    if kind == "Labels":
        return Labels(**parts)
    if kind == "Learner":
        return Learner(**parts)
    if kind == "State":
        return states.state(**parts)
    if kind == "Rows":
        return states.rows(**parts)
    if kind == "Objects":
        return Objects(parts["items"])
    if kind == "Sparse":
        return states.sparse(**parts)
    if kind not in DEFINED:
        raise ValueError(f"there is no part called {kind!r}; a class of your own has to be defined before, its module imported")
    return DEFINED[kind](**parts)


def _number(dtype: np.dtype[Any], value: Any) -> Any:
    """One of NumPy's numbers from what its ``item`` gave: a type that took something else might take all memory."""
    if type(value) is not {"b": bool, "i": int, "u": int, "f": float, "S": bytes, "U": str}.get(dtype.kind):
        raise ValueError(f"a number of type {dtype} cannot be {value!r:.80}")
    return dtype.type(value)
