"""`onkel video`: from input to films, masks and boxes, through everything that goes wrong."""

from __future__ import annotations

import csv
from contextlib import suppress

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")
av = pytest.importorskip("av")

from onkel.video import BackgroundSubtractor, frames, output  # noqa: E402
from onkel.video.cli import main  # noqa: E402

from .scenes import HEIGHT, WIDTH, film  # noqa: E402


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A lossless clip of the moving square."""
    path = tmp_path_factory.mktemp("clip") / "clip.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "bgr0"
        for frame, _ in film("static", 40, 20):
            picture = av.VideoFrame.from_ndarray(frame, format="bgr24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    return path


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i, (frame, _) in enumerate(film("static", 30, 15)):
        cv2.imwrite(str(folder / f"in{i}.png"), frame)
    return folder


def test_everything_at_once(clip, tmp_path):
    out, masks, boxes = tmp_path / "out.mp4", tmp_path / "masks", tmp_path / "boxes.csv"
    assert main([str(clip), "--out", str(out), "--masks", str(masks), "--boxes", str(boxes), "--quiet"]) == 0
    subtractor = BackgroundSubtractor()
    for i, (frame, _) in enumerate(film("static", 40, 20)):
        expected = subtractor.apply(frame)
        assert np.array_equal(cv2.imread(str(masks / f"{i:06d}.png"), cv2.IMREAD_GRAYSCALE), expected)
    with av.open(str(out)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert (stream.width, stream.height) == (4 * WIDTH, HEIGHT)
        assert sum(1 for _ in container.decode(stream)) == 40
    rows = list(csv.DictReader(boxes.read_text().splitlines()))
    square = [r for r in rows if 22 <= int(r["frame"]) < 38]  # until it jumps back
    assert len(square) == 16
    assert len({r["id"] for r in square}) == 1  # one object, one number
    assert [int(r["x"]) for r in square] == sorted(int(r["x"]) for r in square)
    assert all(abs(int(r["width"]) - 12) <= 2 for r in square)


def test_selection_and_size(pictures, tmp_path):
    masks = tmp_path / "masks"
    options = ["--start", "5", "--every", "4", "--roi", "10,8,40,30", "--resize", "20x15", "--limit", "4"]
    assert main([str(pictures), "--masks", str(masks), "--quiet", *options]) == 0
    assert sorted(p.name for p in masks.iterdir()) == [f"{n:06d}.png" for n in (5, 9, 13, 17)]
    assert cv2.imread(str(masks / "000005.png"), 0).shape == (15, 20)


def test_resumed_is_uninterrupted(pictures, tmp_path):
    whole, first, second = tmp_path / "whole", tmp_path / "first", tmp_path / "second"
    model = tmp_path / "model.onkel"
    assert main([str(pictures), "--masks", str(whole), "--quiet"]) == 0
    assert main([str(pictures), "--masks", str(first), "--limit", "18", "--save", str(model), "--quiet"]) == 0
    assert main([str(pictures), "--masks", str(second), "--start", "18", "--resume", str(model), "--quiet"]) == 0
    for part in (*first.iterdir(), *second.iterdir()):
        assert part.read_bytes() == (whole / part.name).read_bytes()
    assert len(list(first.iterdir())) + len(list(second.iterdir())) == 30


def test_a_broken_picture_and_another_size_are_told_and_skipped(pictures, tmp_path, capsys):
    (pictures / "in7.png").write_bytes(b"not a picture")
    cv2.imwrite(str(pictures / "in9.png"), np.zeros((5, 5, 3), np.uint8))
    masks = tmp_path / "masks"
    assert main([str(pictures), "--masks", str(masks), "--quiet"]) == 0
    told = capsys.readouterr().err
    assert "in7.png" in told
    assert "frame 9 is 5x5" in told
    assert len(list(masks.iterdir())) == 28


def test_a_cut_file_gives_what_it_holds(clip, tmp_path):
    cut = tmp_path / "cut.mkv"
    whole = clip.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    found = []
    with suppress(frames.InputError):  # whether the demuxer calls a cut an end or an error is its affair
        found.extend(1 for _ in frames.decoded(str(cut)))
    assert 5 < len(found) < 40


@pytest.mark.parametrize(("argument", "words"), [("nosuch.mp4", "no such file"), ("97", "gave up after 0")])
def test_bad_inputs_say_what_to_do(argument, words, capfd):
    assert main([argument, "--retries", "0", "--quiet"]) == 1
    assert words in capfd.readouterr().err


def test_not_a_video(tmp_path, capsys):
    path = tmp_path / "note.txt"
    path.write_text("hello")
    assert main([str(path), "--quiet"]) == 1
    assert "cannot be opened as a video" in capsys.readouterr().err
    assert main([str(tmp_path), "--quiet"]) == 1
    assert "no pictures" in capsys.readouterr().err


def test_a_lost_stream_is_opened_again_with_growing_pauses(monkeypatch, capsys):
    image = np.zeros((4, 4, 3), np.uint8)
    script = [["frame", "frame", "lost"], ["lost"], ["lost"], ["frame", "lost"], ["lost"], ["lost"], ["lost"]]

    def connect(source, live=False):
        assert live
        for what in script.pop(0):
            if what == "lost":
                raise frames.InputError("connection lost")
            yield frames.Frame(0, 0.0, image)

    monkeypatch.setattr(frames, "decoded", connect)
    pauses, got = [], []
    stream = frames.read("rtsp://camera", retries=3, wait=pauses.append)
    with pytest.raises(frames.InputError, match="gave up after 3 attempts"):
        got.extend(frame.number for frame in stream)
    assert got == [0, 1, 2]  # numbers go on across the gap
    assert pauses == [1.0, 2.0, 4.0, 1.0, 2.0, 4.0]
    assert "back after 3 attempts" in capsys.readouterr().err


def test_a_full_disk_stops_cleanly_and_keeps_what_was_written(pictures, tmp_path, monkeypatch, capsys):
    masks, boxes = tmp_path / "masks", tmp_path / "boxes.csv"
    original = output.Masks.write

    def full(self, number, mask):
        if number == 20:
            raise output.OutputError("masks/000020.png: cannot be written (No space left on device)")
        original(self, number, mask)

    monkeypatch.setattr(output.Masks, "write", full)
    model = tmp_path / "model.onkel"
    assert main([str(pictures), "--masks", str(masks), "--boxes", str(boxes), "--save", str(model), "--quiet"]) == 1
    assert "No space left" in capsys.readouterr().err
    assert len(list(masks.iterdir())) == 20
    assert boxes.read_text().startswith("frame,seconds,id")
    assert model.exists()


def test_components_keep_their_numbers():
    boxes = output.Boxes(min_area=4)
    first, second = np.zeros((20, 40), np.uint8), np.zeros((20, 40), np.uint8)
    first[2:8, 2:8] = first[10:16, 20:26] = 255
    second[2:8, 4:10] = second[10:16, 18:24] = second[1:3, 35:38] = 255
    assert [r[0] for r in boxes.find(first)] == [1, 2]
    assert {(r[0], r[1]) for r in boxes.find(second)} == {(1, 4), (2, 18), (3, 35)}
