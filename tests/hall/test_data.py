"""The data are found, checked and read; what is missing is said with the place to put it."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from onkel import data

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the data folder ../shared/data is not there")


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data anywhere, no network."""
    monkeypatch.delenv("ONKEL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def offline(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    return tmp_path


COUNTS = {  # rows and rows per class, as the sets' own documentation states them
    "mnist": (70_000, {0: 5923 + 980, 1: 6742 + 1135, 9: 5949 + 1009}),
    "usps": (9298, {0: 1194 + 359, 5: 556 + 160, 8: 542 + 166}),
    "electricity": (45_312, {0: 26_075, 1: 19_237}),
    "weather": (18_159, {0: 12_461, 1: 5_698}),
    "covtype": (50_000, {}),
    "gas_drift": (6697, {}),
    "newsgroups20": (18_846, {}),
    "wipo_d": (1710, {}),
}


@shared
@pytest.mark.parametrize("name", COUNTS)
def test_rows_and_classes(name):
    rows, per_class = COUNTS[name]
    X, y, *_ = loaded = data.load(name, directory=SHARED)
    assert X.shape[0] == len(y) == rows
    assert sorted(set(y.tolist())) == list(range(int(y.max()) + 1)), "class codes run from 0 without gaps"
    for label, count in per_class.items():
        assert (y == label).sum() == count
    if loaded.is_test is not None:
        assert len(loaded.train()[1]) + len(loaded.test()[1]) == rows


@shared
def test_video_frames_belong_to_their_masks():
    frames, masks, *_, number = data.load("pets2001_illumination", directory=SHARED)
    assert frames.shape == (301, 240, 320, 3)
    assert masks.shape == frames.shape[:3]
    assert (masks[:56] == 85).all(), "the first 56 frames have no mask"
    assert set(np.unique(masks[56:])) == {0, 255}
    assert number.tolist() == list(range(1, 302))


@shared
@pytest.mark.slow
def test_kddcup99_counts():
    X, y, *_ = data.load("kddcup99", directory=SHARED)
    assert X.shape == (494_021, 38)
    assert (y == 0).sum() == 97_278


@shared
def test_label_trees_have_one_leaf_per_label():
    from onkel.core.maths.labels import Labels

    for name, depth in (("wipo_d", 5), ("newsgroups20", 6)):
        loaded = data.load(name, directory=SHARED)
        labels = Labels.tree(data.label_tree(loaded.paths))
        assert labels.m == len(loaded.paths) == loaded.y.max() + 1
        assert labels.kernel.max() == depth
        shared_nodes = sum(a == b for a, b in zip(loaded.paths[0], loaded.paths[-1]))
        assert labels.kernel[0, -1] == shared_nodes


def test_an_inner_node_cannot_be_a_label():
    with pytest.raises(ValueError, match="leaf"):
        data.label_tree([("root", "a"), ("root", "a", "b")])


def test_counting_sequence_counts():
    images = data.load("digits")
    X, y = data.counting_sequence(images, seed=1, runs=2, digits=3).train()
    assert len(y) == 6000
    assert (np.bincount(y) == 600).all()
    assert y[:9].tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 2]
    assert y[3 * 417 : 3 * 417 + 3].tolist() == [4, 1, 7]
    assert np.array_equal(y[:3000], y[3000:])
    other = data.counting_sequence(images, seed=2)
    assert np.array_equal(other.y, y)
    assert not np.array_equal(other.X, X)


@shared
def test_counting_with_usps_uses_no_image_twice():
    X, _ = data.load("counting_sequence", directory=SHARED).train()
    assert len(np.unique(X, axis=0)) > 5990  # USPS itself holds a few equal images


@pytest.mark.parametrize("name", sorted(data.SYNTHETIC))
def test_streams_are_seeded(name):
    one, again, other = (data.load(name, seed=seed, n=200) for seed in (1, 1, 2))
    assert np.array_equal(one.X, again.X)
    assert np.array_equal(one.y, again.y)
    assert not np.array_equal(one.X, other.X)


def test_missing_data_says_which_file_goes_where(nowhere, monkeypatch):
    monkeypatch.setenv("ONKEL_DATA", str(nowhere / "here"))
    with pytest.raises(data.MissingData) as error:
        data.load("mnist")
    text = str(error.value)
    for file in data.SETS["mnist"].files:
        assert str(nowhere / "here" / "mnist" / file) in text
    assert "no network" in text


def test_damaged_file_is_refused(nowhere):
    folder = nowhere / "weather"
    folder.mkdir()
    (folder / "weather_noaa.csv.xz").write_bytes(b"not it")
    with pytest.raises(data.MissingData, match=hashlib.sha256(b"not it").hexdigest()):
        data.load("weather", directory=nowhere)


@shared
def test_openml_copy_is_repacked_checked_and_read_back(nowhere, monkeypatch):
    true = data.load("electricity", directory=SHARED)
    dated = np.column_stack([np.zeros((len(true.y), 2)), true.X])

    def fetch(labels):
        return lambda **_: (dated, labels)

    labels = np.where(true.y == 1, "UP", "DOWN")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch(labels[::-1]))
    with pytest.raises(data.MissingData, match="labels"):
        data.load("electricity")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch(labels))
    copy = data.load("electricity")
    np.testing.assert_allclose(copy.X, true.X, atol=1e-6)
    assert np.array_equal(copy.y, true.y)
    file = data.cache() / "electricity" / "electricity.csv.xz"
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(data.MissingData, match="damaged"):
        data.load("electricity")


@shared
def test_openml_mnist_is_repacked(nowhere, monkeypatch):
    true = data.load("mnist", directory=SHARED)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: (true.X.astype(float), true.y.astype(str)))
    copy = data.load("mnist")
    assert np.array_equal(copy.X, true.X)
    assert np.array_equal(copy.y, true.y)


def test_openml_is_asked_as_scikit_learn_allows(nowhere, monkeypatch):
    """n_retries=0 is refused by it, so nothing could ever be fetched."""
    asked = []

    def fetch(**options):
        asked.append(options)
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(data.MissingData, match="no network"):
        data.find("mnist")
    assert asked[0]["n_retries"] >= 1


def test_frames_are_read_without_pillow(tmp_path, monkeypatch):
    import sys
    import zipfile

    cv2 = pytest.importorskip("cv2")
    monkeypatch.setitem(sys.modules, "PIL", None)
    blue = np.zeros((4, 5, 3), np.uint8)
    blue[:, :, 2] = 200  # red, green, blue
    with zipfile.ZipFile(tmp_path / "frames.zip", "w") as archive:
        for number in (2, 1):
            archive.writestr(f"in{number:03d}.png", cv2.imencode(".png", blue[:, :, ::-1] + np.uint8(number))[1].tobytes())
    found = data._video(tmp_path)
    assert found.group.tolist() == [1, 2]
    assert np.array_equal(found.X[0], blue + 1)


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match="wipo_d"):
        data.load("mnits")
