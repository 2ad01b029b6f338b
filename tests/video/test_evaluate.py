"""The harness: layouts, counting, curves; and the real sequences where they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")

from onkel.video.cli import main  # noqa: E402
from onkel.video.judge import evaluate  # noqa: E402
from onkel.video.judge.sequences import BACKGROUND, OBJECT, OUTSIDE, SHADOW, UNKNOWN, find_sequences  # noqa: E402

from .scenes import film  # noqa: E402

DATA = Path(os.environ.get("ONKEL_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")


@pytest.fixture
def cdnet(tmp_path):
    """A made-up sequence in CDnet's layout."""
    root = tmp_path / "baseline" / "square"
    (root / "input").mkdir(parents=True)
    (root / "groundtruth").mkdir()
    for i, (frame, mask) in enumerate(film("static", 60, 40), 1):
        cv2.imwrite(str(root / "input" / f"in{i:06d}.png"), frame)
        cv2.imwrite(str(root / "groundtruth" / f"gt{i:06d}.png"), np.where(mask, 255, 0).astype(np.uint8))
    (root / "temporalROI.txt").write_text("31 60")
    inside = np.full(mask.shape, 255, np.uint8)
    inside[:5] = 0
    cv2.imwrite(str(root / "ROI.bmp"), inside)
    return tmp_path


def test_cdnet_layout(cdnet):
    (sequence,) = find_sequences(cdnet)
    rows = list(sequence.frames())
    assert sequence.name == "square"
    assert [n for n, _, labels in rows if labels is not None] == list(range(31, 61))
    assert (rows[-1][2][:5] == OUTSIDE).all()
    assert (rows[-1][2] == OBJECT).sum() == 14 * 12


def test_eval_command(cdnet, capsys, tmp_path):
    figure, sheets = tmp_path / "roc.png", tmp_path / "sheets"
    assert main(["eval", str(cdnet), "--figure", str(figure), "--sheets", str(sheets)]) == 0
    table = capsys.readouterr().out
    for name in ("onkel", "silk", "norma", "MOG2", "KNN", "average"):
        assert name in table
    assert figure.stat().st_size > 10_000
    assert cv2.imread(str(sheets / "square.png")).shape[1] == 200 * 8
    assert main(["eval", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    for option, there in (("--only", "square"), ("--methods", "onkel, silk, norma, MOG2, KNN, average")):
        assert main(["eval", str(cdnet), option, "MOG3"]) == 2
        assert f"{option}: no MOG3; there are {there}" in capsys.readouterr().err


def test_counts_and_curves_by_hand():
    result = evaluate.Result("s", "m")
    result.objects[[10, 20]] = 3, 1
    result.ground[[15, 30]] = 2, 6
    pairs = 3 * 8 + 1 * 6  # (object, background) pairs in which the object is more novel
    assert result.auc == pytest.approx(pairs / (4 * 8))
    assert result.average_precision == pytest.approx(0.75 * 1.0 + 0.25 * 4 / 6)
    assert evaluate.rates(np.array([6.0, 2.0, 4.0, 88.0])) == pytest.approx((0.75, 0.6, 12 / 18, 2 / 90))


class Made:
    """Twelve frames of 2 x 3 pixels with labels of every kind."""

    name = "made"
    labels = np.array([[BACKGROUND, SHADOW, OBJECT], [OBJECT, UNKNOWN, OUTSIDE]], np.uint8)

    def frames(self):
        for n in range(12):
            yield n, np.zeros((2, 3, 3), np.uint8), self.labels


class Fixed:
    """Says the same of every frame."""

    scores = np.array([[0.9, 0.2, 0.1], [0.7, 0.0, 0.0]])

    def apply(self, frame):
        return np.where(self.scores < 0.5, 255, 0).astype(np.uint8)


def test_shadows_count_as_background_and_the_unknown_not_at_all():
    (result,) = evaluate.run(Made(), {"fixed": Fixed})
    np.testing.assert_array_equal(result.plain, 12 * np.array([1, 1, 1, 1]))  # hits, false alarms, misses, rightly quiet
    np.testing.assert_array_equal(result.late, 2 * (result.filtered / 12))
    assert result.objects[[int(0.1 * 2048 / 1.5), int(0.7 * 2048 / 1.5)]].tolist() == [12, 12]
    assert result.ground[[int(0.2 * 2048 / 1.5), int(0.9 * 2048 / 1.5)]].tolist() == [12, 12]


def test_recovery_counts_from_the_last_step_of_the_light(monkeypatch):
    monkeypatch.setattr(evaluate, "EMPTY", {"s": ((10, 14, 19),)})
    shares = [0.5, 0.5, 0.0, 0.3, 0.2, 0.0, 0.1, 0.05, 0.02, 0.0, 0.0, 0.0, 0.0, 0.0]
    result = evaluate.Result("s", "m", numbers=list(range(8, 22)), shares=shares)
    assert result.light() == [(0.3, 3)]


needs_data = pytest.mark.skipif(not (DATA / "cdnet_highway").exists(), reason="the labelled sequences are not here (ONKEL_DATA)")


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(("name", "floor"), [("cdnet_highway", 0.92), ("cdnet_traffic", 0.75), ("pets2001_illumination", 0.60)])
def test_one_default_for_all_sequences(name, floor):
    (sequence,) = (s for s in find_sequences(DATA) if s.name == name)
    contenders = {k: v for k, v in evaluate.methods().items() if k in ("onkel", "silk", "norma", "MOG2", "KNN")}
    results = {r.method: r for r in evaluate.run(sequence, contenders)}
    score = {k: evaluate.rates(r.filtered)[2] for k, r in results.items()}
    assert score["onkel"] >= floor
    assert score["onkel"] > max(score["MOG2"], score["KNN"])
    assert results["silk"].auc > results["norma"].auc


@needs_data
def test_lights_off_and_on():
    (sequence,) = (s for s in find_sequences(DATA) if s.name == "i2r_lobby")
    (result,) = evaluate.run(sequence, {"onkel": evaluate.methods()["onkel"]})
    for peak, frames in result.light():
        assert peak <= 0.30
        assert frames <= 10
