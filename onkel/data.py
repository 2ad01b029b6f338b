"""The data of the papers and of the drifting-stream benchmarks, found, checked and read into arrays.

    load("mnist")                          all 70,000 digits; .train() gives the 60,000 of the training part
    load("drifting_mixtures", seed=3)      a synthetic stream; needs no file

A set of files is looked for in the folder given (argument `directory`, or the environment variable ONKEL_DATA) and
in the user's cache; each file has to have the checksum written here. Sets that OpenML keeps in the same form are
fetched from there through scikit-learn and put into the cache, after the sequence of labels has been compared.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import zipfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from platformdirs import user_cache_path

from onkel.saved import atomic
from onkel.terminal.extras import need

__all__ = ["SETS", "Dataset", "MissingData", "counting_sequence", "find", "label_tree", "load"]


class Dataset(NamedTuple):
    """Rows in the order in which a stream shows them.

    y holds class codes 0..m-1 (or +-1 for the synthetic binary streams); is_test marks the official test part where
    there is one; paths are the ways from the root of the label tree to each label; group is a further column (the
    batch of gas_drift).
    """

    X: np.ndarray  # a scipy.sparse.csr_matrix for newsgroups20
    y: np.ndarray
    is_test: np.ndarray | None = None
    paths: tuple[tuple[str, ...], ...] | None = None
    group: np.ndarray | None = None

    def train(self) -> tuple[np.ndarray, np.ndarray]:
        return (self.X, self.y) if self.is_test is None else (self.X[~self.is_test], self.y[~self.is_test])

    def test(self) -> tuple[np.ndarray, np.ndarray]:
        if self.is_test is None:
            raise ValueError("this set has no official test part; cut one from X and y")
        return self.X[self.is_test], self.y[self.is_test]


class MissingData(FileNotFoundError):
    """A file of a data set is neither in the folder given nor in the cache, and could not be fetched."""


class Source(NamedTuple):
    files: dict[str, str]  # file name -> sha256
    read: Callable[[Path], Dataset]
    about: str
    source: str
    licence: str
    openml: Callable[[], dict[str, bytes]] | None = None  # fetches and returns the files


def load(name: str, *, directory: str | os.PathLike[str] | None = None, seed: int = 0, n: int | None = None) -> Dataset:
    """The set or stream called `name`; `n` keeps the first rows, `seed` matters to the synthetic streams only.

    >>> X, y = load("digits").train()
    >>> X.shape, int(y.max())
    ((1797, 64), 9)
    >>> X, y = load("drifting_mixtures", seed=3, n=500).train()
    >>> X.shape, sorted(set(y.tolist()))
    ((500, 2), [-1.0, 1.0])
    """
    if name == "counting_sequence":
        data = counting_sequence(load("usps", directory=directory), seed=seed)
    elif name in SYNTHETIC:
        data = SYNTHETIC[name](seed, n)
    elif name == "digits":
        data = _digits()
    elif name in SETS:
        data = _read(name, find(name, directory))
    else:
        raise ValueError(f"unknown data set {name!r}; there are {', '.join(names())}")
    if n is None or n >= len(data.y):
        return data
    return data._replace(
        X=data.X[:n], y=data.y[:n], **{k: v[:n] for k in ("is_test", "group") if (v := getattr(data, k)) is not None}
    )


def names() -> list[str]:
    return [*SETS, "digits", "counting_sequence", *SYNTHETIC]


def places(directory: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where files are looked for, first to last."""
    given = directory or os.environ.get("ONKEL_DATA")
    return [*([Path(given).expanduser()] if given else []), cache()]


def cache() -> Path:
    return user_cache_path("onkel", appauthor=False)


def present(name: str, directory: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder that holds every file of the set, or None."""
    for place in places(directory):
        if all((place / name / file).is_file() for file in SETS[name].files):
            return place / name
    return None


def find(name: str, directory: str | os.PathLike[str] | None = None) -> Path:
    """The folder with the files of a set, fetched if need be, each file's checksum compared."""
    folder = present(name, directory)
    reason = "OpenML does not keep it in this form"
    if folder is None and (fetch := SETS[name].openml) is not None:
        try:
            folder = _keep(name, fetch())
        except Exception as error:  # no network, a proxy, a changed set: whatever it was, the remedy is the same
            reason = f"fetching it from OpenML failed ({type(error).__name__}: {str(error)[:120]})"
    if folder is None:
        wanted = "\n".join(f"    {places(directory)[0] / name / file}" for file in SETS[name].files)
        raise MissingData(
            f"the data set {name!r} is not here, and {reason}.\nPut these files there (sha256 in onkel.data.SETS), or "
            f"name another folder with --data or ONKEL_DATA:\n{wanted}\n  source: {SETS[name].source}"
        )
    for file in SETS[name].files:
        _compare(folder / file, SETS[name].files[file])
    return folder


@lru_cache(maxsize=64)
def _digest(path: Path, modified: float) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _compare(path: Path, wanted: str) -> None:
    got = _digest(path, path.stat().st_mtime)
    if path.parent.parent == cache() and (mark := path.with_name(path.name + ".sha256")).exists():
        wanted = mark.read_text()  # fetched files are packed here, so their bytes are our own
    if got != wanted:
        raise MissingData(f"{path} is damaged or another version: sha256 {got}, expected {wanted}; replace the file")


def _keep(name: str, files: dict[str, bytes]) -> Path:
    folder = cache() / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        atomic.write(folder / (file + ".sha256"), hashlib.sha256(content).hexdigest().encode())
        atomic.write(folder / file, content)
    return folder


@lru_cache(maxsize=4)
def _read(name: str, folder: Path) -> Dataset:
    return SETS[name].read(folder)


# --- label trees --------------------------------------------------------------------------------------------


def label_tree(paths: Sequence[Sequence[str]]) -> list[int]:
    """Parents for `Labels.tree`: inner nodes first, then one leaf per path in the order given, so leaf k is label k.

    >>> label_tree([("root", "a", "x"), ("root", "a", "y"), ("root", "z")])
    [-1, 0, 1, 1, 0]
    """
    inner: dict[tuple[str, ...], int] = {}
    parents: list[int] = []
    for path in paths:
        for depth in range(1, len(path)):
            if tuple(path[:depth]) not in inner:
                inner[tuple(path[:depth])] = len(parents)
                parents.append(inner[tuple(path[: depth - 1])] if depth > 1 else -1)
    taken = {tuple(path) for path in paths} & set(inner)
    if taken:
        raise ValueError(f"every label has to be a leaf, but {sorted(taken)[0]} is also an inner node")
    return parents + [inner[tuple(path[:-1])] for path in paths]


def _tree_file(path: Path) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(line.split("\t")[2].split("/")) for line in path.read_text().splitlines())


# --- synthetic streams and streams made from data -----------------------------------------------------------


def counting_sequence(data: Dataset, *, seed: int = 0, runs: int = 2, digits: int = 3) -> Dataset:
    """Digits in the order of a decimal counter running `runs` times from 000 to 999 (SVMD paper, section 6.2).

    With three places each digit is needed 600 times; no image is used twice where there are enough of them. USPS has
    542 eights in its training part, so both parts are pooled.
    """
    counter = np.arange(10**digits)[:, None] // 10 ** np.arange(digits - 1, -1, -1)
    order = np.tile(counter.ravel() % 10, runs)
    rng = np.random.default_rng(seed)
    rows = np.empty(len(order), dtype=np.intp)
    for digit in range(10):
        slots, have = np.flatnonzero(order == digit), rng.permutation(np.flatnonzero(data.y == digit))
        if len(have) == 0:
            raise ValueError(f"there is no digit {digit} to count with")
        rows[slots] = np.resize(have, len(slots))
    return Dataset(data.X[rows], data.y[rows])


def _mixture(name: str, size: int) -> Callable[[int, int | None], Dataset]:
    def stream(seed: int, n: int | None) -> Dataset:
        from onkel import streams

        X, y = getattr(streams, name)(n or size, seed=seed)
        return Dataset(X, y)

    return stream


SYNTHETIC = {
    "drifting_mixtures": _mixture("drifting_mixtures", 2000),
    "moving_mixtures": _mixture("moving_mixtures", 10_000),
    "switching_mixtures": _mixture("switching_mixtures", 10_000),
}


# --- readers ------------------------------------------------------------------------------------------------


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return Dataset(bunch.data / 16.0, bunch.target.astype(np.intp))


def _mnist(folder: Path) -> Dataset:
    def idx(file: str, header: int) -> np.ndarray:
        return np.frombuffer(lzma.decompress((folder / file).read_bytes()), np.uint8, offset=header)

    X = [idx(f"{part}-images-idx3-ubyte.xz", 16).reshape(-1, 784) for part in ("train", "t10k")]
    y = [idx(f"{part}-labels-idx1-ubyte.xz", 8) for part in ("train", "t10k")]
    return Dataset(np.concatenate(X), np.concatenate(y).astype(np.intp), np.arange(70_000) >= 60_000)


def _usps(folder: Path) -> Dataset:
    with np.load(folder / "usps.npz") as d:
        X = np.concatenate([d["X_train"], d["X_test"]]).reshape(-1, 256) / 1000.0
        y = np.concatenate([d["y_train"], d["y_test"]]).astype(np.intp)
    return Dataset(X, y, np.arange(len(y)) >= 7291)


def _csv(file: str) -> Callable[[Path], Dataset]:
    def read(folder: Path) -> Dataset:
        with lzma.open(folder / file, "rt") as lines:
            table = np.loadtxt(lines, delimiter=",", skiprows=1)
        return Dataset(table[:, :-1], table[:, -1].astype(np.intp))

    return read


def _covtype(folder: Path) -> Dataset:
    with np.load(folder / "covtype_first50k.npz") as d:
        X = np.hstack([d["numeric"], np.eye(4)[d["wilderness"]], np.eye(40)[d["soil"]]])
        return Dataset(X, d["y"].astype(np.intp) - 1)


def _gas_drift(folder: Path) -> Dataset:
    with np.load(folder / "gas_drift_8of10.npz") as d:
        return Dataset(d["XT"].T.astype(float), d["y"].astype(np.intp) - 1, group=d["batch"])


def _kddcup99(folder: Path) -> Dataset:
    """The 38 numeric attributes; y is 0 for normal traffic, 1 for an attack. Many rows are exact duplicates."""
    attributes = [c for c in range(41) if c not in (1, 2, 3)]
    with lzma.open(folder / "kddcup99_10_percent.csv.xz", "rt") as file:
        lines = file.readlines()
    attack = np.array([not line.rstrip().endswith("normal.") for line in lines])
    return Dataset(np.loadtxt(lines, delimiter=",", usecols=attributes), attack.astype(np.intp))


def _newsgroups20(folder: Path) -> Dataset:
    from scipy.sparse import csr_matrix

    with np.load(folder / "bow.npz") as d:
        X = csr_matrix((d["data"].astype(float), d["indices"].astype(np.int32), d["indptr"]), shape=tuple(d["shape"]))
        return Dataset(X, d["y"].astype(np.intp), d["is_test"], _tree_file(folder / "tree.txt"))


def _wipo_d(folder: Path) -> Dataset:
    with np.load(folder / "wipo_d_lsa100.npz") as d:
        return Dataset(d["X"], d["y"].astype(np.intp), d["is_test"], _tree_file(folder / "tree.txt"))


def _video(folder: Path) -> Dataset:
    """Frames (n, height, width, 3) and masks: 0, 50 background, 255 moving, 85 not to be judged; group: frame numbers."""
    need("a set of video frames", "cv2")
    import cv2

    with zipfile.ZipFile(folder / "frames.zip") as archive:
        files = sorted(archive.namelist())
        images = (cv2.imdecode(np.frombuffer(archive.read(file), np.uint8), cv2.IMREAD_COLOR) for file in files)
        X = np.stack([image[:, :, ::-1] for image in images])  # OpenCV's are blue first
    number = np.array([int("".join(filter(str.isdigit, file))) for file in files])
    masks = np.full(X.shape[:3], 85, np.uint8)
    if (folder / "gt.npz").exists():
        with np.load(folder / "gt.npz") as d:
            masks[np.searchsorted(number, d["frame"])] = d["gt"]
    return Dataset(X, masks, group=number)


# --- OpenML: the same content in another wrapping, packed into the layout above once its labels have been compared ---


def _openml(number: int, labels: str) -> tuple[np.ndarray, np.ndarray]:
    """X, y of an OpenML set; `labels` is the sha256 of the sequence of labels, as comma-separated text."""
    from sklearn.datasets import fetch_openml

    X, y = fetch_openml(data_id=number, return_X_y=True, as_frame=False, parser="liac-arff", n_retries=1)
    got = hashlib.sha256(",".join(str(label) for label in y).encode()).hexdigest()
    if got != labels:
        raise ValueError(f"OpenML set {number} has labels with sha256 {got}, expected {labels}")
    return X, y


def _openml_mnist() -> dict[str, bytes]:
    X, y = _openml(554, "49f26e1c570a99662ea78a71ea0ad2a06b2bd56ba5ab1e9bbbeb12a5707600ba")
    images, labels = X.astype(np.uint8), y.astype(np.uint8)
    files = {}
    for part, rows in (("train", slice(0, 60_000)), ("t10k", slice(60_000, None))):
        for kind, head, values in (("images-idx3", [2051, -1, 28, 28], images[rows]), ("labels-idx1", [2049, -1], labels[rows])):
            head[1] = len(values)
            content = np.array(head, dtype=">u4").tobytes() + values.tobytes()
            files[f"{part}-{kind}-ubyte.xz"] = lzma.compress(content, preset=1)
    return files


def _openml_electricity() -> dict[str, bytes]:
    X, y = _openml(151, "010c38f6ef7ee04cfc884fa9ab55d9aa9e1abaa9041da8ca1a88f22c82de5c88")
    table = np.column_stack([X[:, -6:].astype(float), y == "UP"])  # date and day come first and are left out
    lines = ["feat_1,feat_2,feat_3,feat_4,feat_5,feat_6,target", *(",".join(f"{v:.6g}" for v in row) for row in table)]
    return {"electricity.csv.xz": lzma.compress("\n".join(lines).encode())}


SETS: dict[str, Source] = {
    "mnist": Source(
        {
            "t10k-images-idx3-ubyte.xz": "d815adbb3188b5bafed15d649960a5dbcb0f9138b9a4205b88b175001cb394c9",
            "t10k-labels-idx1-ubyte.xz": "f2edae9ce0307abae4671a37b70e6e3858696b48b16c3cfdfef97388dc9925d5",
            "train-images-idx3-ubyte.xz": "8f41e9b4abc124dc3d209e86f7ea714a81f80edea40b565a4781dec7bd67c6e2",
            "train-labels-idx1-ubyte.xz": "dcd3d8184fe1a8be6231f172fb3390116f91c127282fd736ab55752c179963d8",
        },
        _mnist,
        "70,000 digits, 28 x 28, original order",
        "LeCun, Bottou, Bengio, Haffner 1998; OpenML 554",
        "usually given as CC BY-SA 3.0",
        _openml_mnist,
    ),
    "usps": Source(
        {"usps.npz": "0878fa2d02ee6df7df95fa14c7669b0697e48996b8a2c5ee1f5551650cf7cf13"},
        _usps,
        "9,298 digits, 16 x 16, the standard split",
        "Hull 1994; Hastie, Tibshirani, Friedman, zip.train and zip.test",
        "not stated",
    ),
    "electricity": Source(
        {"electricity.csv.xz": "36cc0578efe8af639dfc32cf0cbf4e89a6f5db48a6b301a3c42addd8c365b963"},
        _csv("electricity.csv.xz"),
        "45,312 half hours of a drifting market, price up or down",
        "Harries 1999, as normalised by MOA; OpenML 151",
        "not stated",
        _openml_electricity,
    ),
    "weather": Source(
        {"weather_noaa.csv.xz": "c8ad84bd71c5d38e29dc9e35a07faa0d1b2b74faa6c19328011a035321390385"},
        _csv("weather_noaa.csv.xz"),
        "18,159 days, rain or not",
        "Elwell, Polikar 2011, from NOAA records",
        "not stated (US government measurements)",
    ),
    "covtype": Source(
        {"covtype_first50k.npz": "e08befe07705afc0479430b7a59d1066d48a06e616f311cbbea586992818566c"},
        _covtype,
        "the first 50,000 rows in original order, 7 classes",
        "Blackard, Dean 1999; UCI",
        "CC BY 4.0",
    ),
    "gas_drift": Source(
        {"gas_drift_8of10.npz": "a0d5f87692b670c4d8bf96f75e54ce2773e2d36b3499bba23b5d05914026e6d6"},
        _gas_drift,
        "6,697 measurements, 128 features, 6 gases, 8 of the 10 batches",
        "Vergara et al. 2012; UCI",
        "CC BY 4.0",
    ),
    "kddcup99": Source(
        {"kddcup99_10_percent.csv.xz": "bdd9483f8f66286e2a453d3e3fd4ad53960f212c5dab277037f5f5cf2b149f69"},
        _kddcup99,
        "494,021 connections, the 10 % set, many exact duplicates",
        "KDD Cup 1999; UCI",
        "CC BY 4.0",
    ),
    "newsgroups20": Source(
        {
            "bow.npz": "502ff659c32137676c8eeae91190deae326c85b1fc4bbc0b3d6aa4d9c95d0f8c",
            "tree.txt": "31efeb2c3dfe8a0fd26c1c8ac10c556b34ad8ef704a02ad1ff8d33449ae2b675",
        },
        _newsgroups20,
        "18,846 postings as word counts, 20 groups in a tree",
        "Lang 1995, the 'bydate' version of Rennie",
        "not stated",
    ),
    "wipo_d": Source(
        {
            "tree.txt": "0aa9c3b1be313e4dd450451804522b75ba2f5d93ea3d123b49c7c9dcb62dbadb",
            "wipo_d_lsa100.npz": "831362555682bcdd9beb1b98b983da50fabe475fe17629136396ef57ec7b14ef",
        },
        _wipo_d,
        "1,710 patents of section D, 100 LSA components, 57 leaves in a tree",
        "Fall et al. 2003, WIPO-alpha",
        "not stated",
    ),
    "cdnet_traffic": Source(
        {
            "frames.zip": "69721828b2eef8b957a30c7eddcd8d25238bef7ce9a628509163710be6326b9f",
            "gt.npz": "1dccbaae17b9c4a2c6ead3959304f246f2a78b296f62383e41fefb6d51c38dfa",
        },
        _video,
        "770 frames of traffic, shaking camera, with masks",
        "Wang et al., CDnet 2014, cameraJitter/traffic",
        "not stated",
    ),
    "i2r_lobby": Source(
        {"frames.zip": "33046d09b4a081099c463e52ed07a61eea06dd5305f28ed2ed2bb8759a57c076"},
        _video,
        "310 frames of a lobby, lights switched off and on, no masks",
        "Li, Huang, Gu, Tian 2004, I2R Lobby",
        "not stated",
    ),
    "pets2001_illumination": Source(
        {
            "frames.zip": "baf395cd6cc1af3068ab2ec3fe7667677105a94c1018ddd518519f37cd7239b9",
            "gt.npz": "20e0247b60b3a9437acdc29eba126e1da508e1d74de19378444a5530e286e8c8",
        },
        _video,
        "301 frames outdoors, sun and cloud, with masks",
        "Ferryman, PETS 2001 Dataset 3, Camera 1",
        "not stated",
    ),
}
