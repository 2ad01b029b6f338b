"""Changed footage: the labels stay true."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")

from onkel.video.cli import main  # noqa: E402
from onkel.video.judge.sequences import find_sequences  # noqa: E402
from onkel.video.judge.stress import CHANGES, Stressed  # noqa: E402

from .scenes import film  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    """Forty frames with labels from the eleventh on."""
    frames, masks = zip(*film("static", 40, 10), strict=True)
    np.savez(tmp_path / "gt.npz", frame=np.arange(11, 41), gt=np.stack(masks[10:]).astype(np.uint8) * 255)
    with zipfile.ZipFile(tmp_path / "frames.zip", "w") as archive:
        for i, frame in enumerate(frames, 1):
            archive.writestr(f"in{i:06d}.png", cv2.imencode(".png", frame)[1].tobytes())
    return tmp_path


@pytest.mark.parametrize("change", CHANGES)
def test_labels_follow_the_frames(folder, change):
    (sequence,) = find_sequences(folder)
    plain, changed = list(sequence.frames()), list(Stressed(sequence, change).frames())
    again = list(Stressed(sequence, change).frames())
    assert len(changed) == (20 if change == "every 2nd frame" else 40)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(changed, again, strict=True))  # the same noise every time
    before = {n: (frame, labels) for n, frame, labels in plain}
    for n, frame, labels in changed:
        assert frame.dtype == np.uint8
        assert (labels is None) == (before[n][1] is None)
        if labels is not None:
            assert labels.shape == frame.shape[:2]
            assert labels.mean() == pytest.approx(before[n][1].mean(), rel=0.3)
    assert (change == "as it is") or any(
        frame.shape != before[n][0].shape or len(changed) < 40 or not np.array_equal(frame, before[n][0]) for n, frame, _ in changed
    )


def test_the_option_prints_one_line_a_change(folder, capsys):
    assert main(["eval", str(folder), "--stress"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(CHANGES)
    assert all("onkel" in line and "MOG2" in line and "KNN" in line for line in lines)
