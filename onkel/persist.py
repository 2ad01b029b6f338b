"""Models in files: one zip of plain arrays and a JSON header, written atomically, read without running any code.

    onkel.save(model, "model.onkel")            (learner, state), an estimator, a River model, a video subtractor
    model = onkel.load("model.onkel")           the same model, to the bit
    onkel.load("m.onkel", kernels={"spectrum": spectrum})      a kernel written in Python is not in the file: give it again

The file (docs/files.md) is an uncompressed zip, so it can hold no more than its own size, with

    onkel.json      format, onkel's version, kind of model, the model as a tree of plain values (plain.py), and of each array
                    its dtype, shape and sha256
    onkel.sha256    the digest of onkel.json
    NAME.npy        the arrays, as numpy writes them, never pickled

A class of ours that can be saved has two methods; values are whatever :func:`onkel.plain.describe` knows, so kernels, losses,
labels, class names, None, lists, dicts, ``(learner, state)`` pairs and arrays may all stand in the header as they are:

    _to_file(self) -> parts            a dict of values
    _from_file(cls, parts) -> model    the same dict again, built and checked
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np

import onkel
from onkel.core.learner import Learner
from onkel.core.state import State
from onkel.saved import atomic
from onkel.saved.tree import KINDS, Given, build, describe

FORMAT = 1
HEADER, SEAL = "onkel.json", "onkel.sha256"
HEADER_LIMIT = 256 * 2**20  # bytes; no header of ours comes near it
ADAPTERS = {  # the kinds that a file may name, and where their classes live
    "auto.AutoClassifier": "onkel.auto.classifier",
    "auto.AutoDetector": "onkel.auto.detector",
    "auto.AutoRegressor": "onkel.auto.regressor",
    "auto.Scaler": "onkel.auto.scaler",
    "estimators.KernelClassifier": "onkel.estimators.classifier",
    "estimators.KernelRegressor": "onkel.estimators.regressor",
    "estimators.NoveltyDetector": "onkel.estimators.novelty",
    "prequential.Run": "onkel.commands.scorecard",
    "river.AutoClassifier": "onkel.auto.twins",
    "river.AutoDetector": "onkel.auto.twins",
    "river.AutoRegressor": "onkel.auto.twins",
    "river.KernelClassifier": "onkel.river",
    "river.KernelRegressor": "onkel.river",
    "river.NoveltyDetector": "onkel.river",
    "video.subtractor.BackgroundSubtractor": "onkel.video.subtractor",
}
LEARNED = "learner"


class BadFile(ValueError):
    """A file that is damaged, edited, too new, or no model at all."""


def save(model: Any, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None) -> None:
    """Write a model to one file; a crash at any moment leaves the old file or the new one, never a part.

    model   ``(learner, state)``, an estimator, a River model or a video subtractor
    notes   a dict of plain values to keep with it; :func:`read` gives it back

    >>> import tempfile, numpy as np
    >>> learner = onkel.silk(onkel.RBF(0.5), onkel.Hinge(), budget=8)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    >>> state, _ = learner.learn(learner.init(), X, np.sign(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     onkel.save((learner, state), f"{folder}/model.onkel")
    ...     again, restored = onkel.load(f"{folder}/model.onkel")
    >>> again == learner, np.array_equal(restored.coef, state.coef)
    (True, True)
    """
    atomic.write(path, dumps(model, notes))


def load(
    path: str | os.PathLike[str],
    kernels: Mapping[str, Any] | None = None,
    losses: Mapping[str, Any] | None = None,
    functions: Mapping[str, Any] | None = None,
) -> Any:
    """Read a model that :func:`save` wrote.  Runs no code from the file; :class:`BadFile` where it is not sound.

    ``kernels``, ``losses`` and ``functions`` (of t: schedules, windows) give again, by the names that they had, what the
    user wrote in Python.
    """
    return read(path, kernels, losses, functions)[0]


def read(
    path: str | os.PathLike[str],
    kernels: Mapping[str, Any] | None = None,
    losses: Mapping[str, Any] | None = None,
    functions: Mapping[str, Any] | None = None,
) -> tuple[Any, dict[str, Any]]:
    """The model and the notes that were saved with it."""
    with open(path, "rb") as stream:
        return _read(stream, os.fspath(path), Given(kernels or {}, losses or {}, functions or {}))


def header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the file says about itself; nothing is built."""
    with open(path, "rb") as stream:
        return _guarded(lambda: _header(zipfile.ZipFile(stream), _size(stream)), os.fspath(path))


def dumps(model: Any, notes: Mapping[str, Any] | None = None) -> bytes:
    """The file's bytes: the same model gives the same bytes."""
    arrays: dict[str, np.ndarray] = {}
    users: dict[tuple[str, str], Any] = {}
    kind, content = _taken_apart(model)
    tree = {name: describe(part, arrays, name, users) for name, part in (("model", content), ("notes", dict(notes or {})))}
    plain = {name: np.ascontiguousarray(a, a.dtype.newbyteorder("<")).reshape(a.shape) for name, a in arrays.items()}
    listed = {name: {"dtype": a.dtype.str, "shape": list(a.shape), "sha256": _digest(a)} for name, a in plain.items()}
    text = json.dumps(
        {"format": FORMAT, "onkel": onkel.__version__, "kind": kind, **tree, "arrays": listed}, allow_nan=False, indent=1
    ).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        _put(archive, HEADER, text)
        _put(archive, SEAL, hashlib.sha256(text).hexdigest().encode())
        for name, array in plain.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            _put(archive, f"{name}.npy", member.getvalue())
    return out.getvalue()


def loads(blob: bytes, kernels: Mapping[str, Any] | None = None) -> Any:
    """The model of the bytes that :func:`dumps` made."""
    return _read(io.BytesIO(blob), "these bytes", Given(kernels or {}))[0]


# --- inside ----------------------------------------------------------------------------------------------------------------------


def _taken_apart(model: Any) -> tuple[str, Any]:
    if isinstance(model, tuple) and len(model) == 2 and isinstance(model[0], Learner) and isinstance(model[1], State):
        return LEARNED, tuple(model)
    kind = _kind(type(model))
    if not kind:
        raise TypeError(
            "save takes (learner, state), an estimator, a River model or a video subtractor of onkel; "
            f"got {type(model).__module__}.{type(model).__qualname__}"
        )
    parts = model._to_file()
    return kind, {"header": parts, "arrays": parts.pop("arrays", {})}  # two dicts since format 1


def _kind(cls: type) -> str:
    """The kind under which files know a class of ours, wherever it lives today."""
    for kind, module in ADAPTERS.items():
        if (cls.__module__, cls.__qualname__) == (module, kind.rpartition(".")[2]):
            return kind
    return ""


def _put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name), content)  # ZipInfo: no compression, and a date that never changes


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def _size(stream: BinaryIO) -> int:
    return stream.seek(0, io.SEEK_END)


def _guarded(step: Callable[[], Any], name: str) -> Any:
    """What goes wrong inside a file is told as one kind of error, with the file's name in front."""
    try:
        return step()
    except BadFile as error:
        raise BadFile(f"{name}: {error}") from None
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise BadFile(f"{name}: not a model file of onkel, or a damaged one ({error})") from None
    except MemoryError:
        raise BadFile(f"{name}: it claims to hold more than there is memory for") from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, ArithmeticError) as error:
        raise BadFile(f"{name}: {error if isinstance(error, ValueError | TypeError) else repr(error)}") from None


def _read(stream: BinaryIO, name: str, given: Given) -> tuple[Any, dict[str, Any]]:
    def step() -> tuple[Any, dict[str, Any]]:
        archive = zipfile.ZipFile(stream)
        head = _header(archive, _size(stream))
        arrays = {key: _array(archive, key, about) for key, about in head["arrays"].items()}
        content, notes = build([head["model"], head["notes"]], arrays, given)
        if head["kind"] == LEARNED:
            if not (isinstance(content, tuple) and len(content) == 2 and isinstance(content[0], Learner)):
                raise BadFile("it holds no learner with its state")
            return content, notes
        adapter = getattr(import_module(ADAPTERS[head["kind"]]), head["kind"].rpartition(".")[2])
        return adapter._from_file({**content["header"], "arrays": content["arrays"]}), notes

    return _guarded(step, name)  # type: ignore[no-any-return]


def _header(archive: zipfile.ZipFile, size: int) -> dict[str, Any]:
    members = {info.filename: info for info in archive.infolist()}
    if HEADER not in members or members[HEADER].file_size > HEADER_LIMIT:
        raise BadFile("this is a zip, but not one that onkel wrote")
    every = archive.infolist()
    if sum(info.file_size for info in every) > size or any(info.compress_type or info.flag_bits & 1 for info in every):
        raise BadFile("its members are compressed, encrypted or overlap; onkel writes them plain, one after the other")
    text = archive.read(HEADER)
    head = json.loads(text)
    if not isinstance(head, dict) or type(head.get("format")) is not int:
        raise BadFile("its header names no format")
    if head["format"] > FORMAT:
        raise BadFile(
            f"it was written by onkel {head.get('onkel')} in format {head['format']}; onkel {onkel.__version__} reads "
            f"formats up to {FORMAT}. Upgrade onkel to load it"
        )
    if SEAL not in members or archive.read(SEAL) != hashlib.sha256(text).hexdigest().encode():
        raise BadFile("its header was changed after it was written; restore the file from a copy, or save the model again")
    if head["kind"] not in (LEARNED, *ADAPTERS):
        raise BadFile(f"it holds a {head['kind']!r}, which this onkel does not know")
    if not (isinstance(head.get("notes"), dict) and "model" in head and _is_list_of_arrays(head.get("arrays"))):
        raise BadFile("its header does not say what a header says; restore the file from a copy")
    wanted = {HEADER, SEAL} | {f"{name}.npy" for name in head["arrays"]}
    if set(members) != wanted or len(every) != len(wanted):
        raise BadFile(f"it holds other arrays than its header lists: {', '.join(sorted(set(members) ^ wanted)[:5])}")
    return head


def _is_list_of_arrays(arrays: Any) -> bool:
    """Whether dtype, shape and digest are there for each."""
    return isinstance(arrays, dict) and all(
        isinstance(about, dict)
        and isinstance(about.get("dtype"), str)
        and isinstance(about.get("sha256"), str)
        and isinstance(about.get("shape"), list)
        and all(type(length) is int and length >= 0 for length in about["shape"])
        for about in arrays.values()
    )


def _array(archive: zipfile.ZipFile, name: str, about: Any) -> np.ndarray:
    """One array, its header compared before anything is made of it."""
    content = archive.read(f"{name}.npy")
    stream = io.BytesIO(content)
    np.lib.format.read_magic(stream)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if fortran or dtype.kind not in KINDS or dtype.str != about["dtype"] or list(shape) != about["shape"]:
        raise BadFile(f"the array {name} is not of the type and shape that the header lists")
    data = content[stream.tell() :]
    if len(data) != dtype.itemsize * int(np.prod(shape, dtype=object)) or hashlib.sha256(data).hexdigest() != about["sha256"]:
        raise BadFile(f"the array {name} was changed after it was written; restore the file from a copy, or save the model again")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))
