"""`onkel video`: from input to films, masks and boxes, through everything that goes wrong."""

from __future__ import annotations

import csv
import struct
import subprocess
import sys
from contextlib import contextmanager, suppress

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")
av = pytest.importorskip("av")

import onkel  # noqa: E402
from onkel.video import BackgroundSubtractor  # noqa: E402
from onkel.video.cli import main  # noqa: E402
from onkel.video.film import frames  # noqa: E402
from onkel.video.film import outputs as output  # noqa: E402

from .scenes import HEIGHT, WIDTH, film  # noqa: E402


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
    for number in (9, 10):
        cv2.imwrite(str(pictures / f"in{number}.png"), np.zeros((5, 5, 3), np.uint8))
    masks = tmp_path / "masks"
    assert main([str(pictures), "--masks", str(masks), "--quiet"]) == 0
    told = capsys.readouterr().err
    assert "in7.png" in told
    assert "frame 9 is 5x5" in told
    assert "frame 10" not in told  # once is enough
    assert len(list(masks.iterdir())) == 27


def test_a_cut_picture_is_not_filled_up_with_grey(pictures, tmp_path, capfd):
    whole = cv2.imread(str(pictures / "in0.png"))
    for name in ("in5.jpg", "in6.png"):
        content = cv2.imencode(name[-4:], whole)[1].tobytes()
        (pictures / name).write_bytes(content[: len(content) * 3 // 4])
    (pictures / "in7.png").write_bytes(b"")
    (pictures / ".in8.png").write_bytes(b"of another program")  # takes no number
    (pictures / "in5.png").unlink()
    masks = tmp_path / "masks"
    assert main([str(pictures), "--masks", str(masks), "--quiet"]) == 0
    assert capfd.readouterr().err.splitlines() == [
        "onkel video: in5.jpg: the picture is cut off, skipped",
        "onkel video: in6.png: the picture is cut off, skipped",
        "onkel video: in7.png: the file is empty, skipped",
    ]
    assert [int(p.stem) for p in sorted(masks.iterdir())] == [*range(5), *range(8, 30)]


def test_pictures_of_other_kinds_are_read_alike(tmp_path):
    picture = next(film("static"))[0]
    grey = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
    kinds = [grey, grey.astype(np.uint16) * 257, picture, picture.astype(np.uint16) * 257]
    kinds.append(cv2.cvtColor(picture, cv2.COLOR_BGR2BGRA))
    for i, kind in enumerate(kinds, 8):  # 8, 9, 10: by number, not by letter
        cv2.imwrite(str(tmp_path / f"\N{CJK UNIFIED IDEOGRAPH-6587} \N{SUPERSCRIPT TWO}{i}.PNG"), kind)
    found = [frame.image for frame in frames.read(str(tmp_path))]
    assert all(np.array_equal(image, cv2.merge([grey] * 3)) for image in found[:2])
    assert all(np.array_equal(image, picture) for image in found[2:])
    assert len(found) == 5


def test_a_cut_file_gives_what_it_holds(clip, tmp_path):
    cut = tmp_path / "cut.mkv"
    whole = clip.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    found = []
    with suppress(frames.InputError):  # whether the demuxer calls a cut an end or an error is its affair
        found.extend(1 for _ in frames.decoded(str(cut)))
    assert 5 < len(found) < 40


def test_not_a_video(tmp_path, capsys):
    path = tmp_path / "note.txt"
    path.write_text("hello")
    assert main([str(path), "--quiet"]) == 1
    assert "cannot be opened as a video" in capsys.readouterr().err
    assert main([str(tmp_path), "--quiet"]) == 1
    assert "no pictures" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(av.VideoFrame, "rotation"), reason="PyAV before 14.1")
def test_a_film_from_a_phone_held_upright_stands_upright(tmp_path):
    path = tmp_path / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "10"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        image = next(film("static"))[0]
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="bgr24")))
        container.mux(stream.encode())
    content = path.read_bytes()
    lying, upright = ((0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000), (0, 0x10000, 0, -0x10000, 0, 0, 0, 0, 0x40000000))
    begin = content.index(struct.pack(">9i", *lying), content.index(b"tkhd"))
    path.write_bytes(content[:begin] + struct.pack(">9i", *upright) + content[begin + 36 :])
    (frame,) = frames.read(str(path))
    assert frame.image.shape == (WIDTH, HEIGHT, 3)
    assert np.abs(frame.image.astype(float) - cv2.rotate(image, cv2.ROTATE_90_CLOCKWISE)).mean() < 8


@contextmanager
def no_file_over(size):
    """As on a full disk: a write beyond `size` bytes fails."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_film_that_finds_the_disk_full_plays_up_to_there(tmp_path, capsys):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    noise = np.random.default_rng(0)
    for i in range(200):
        cv2.imwrite(str(pictures / f"{i}.png"), noise.integers(0, 256, (60, 80, 3), np.uint8))
    out, model = tmp_path / "out.mp4", tmp_path / "model.onkel"
    with no_file_over(450_000):
        assert main([str(pictures), "--out", str(out), "--save", str(model), "--quiet"]) == 1
    told = capsys.readouterr().err
    assert "out.mp4: writing stopped at frame" in told
    assert "too large" in told
    assert model.exists()
    played = []
    with av.open(str(out)) as container, suppress(av.error.InvalidDataError):
        played.extend(1 for _ in container.decode(video=0))
    assert len(played) >= 45  # the first fifty, or nearly


def test_boxes_end_with_a_whole_frame(tmp_path):
    path = tmp_path / "boxes.csv"
    boxes = output.BoxFile(str(path), append=False)
    rows = [(i, 10, 10, 20, 20, 400) for i in range(1, 6)]
    picture = np.zeros((2, 2, 3), np.uint8)
    for number in range(3):
        boxes.write(frames.Frame(number, number / 25, picture), rows)
    with no_file_over(path.stat().st_size + 50), pytest.raises(output.OutputError, match="writing stopped at frame 3"):
        boxes.write(frames.Frame(3, 0.12, picture), rows)
    boxes.close()
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + 3 * len(rows)
    with path.open("a") as torn:
        torn.write("9,0.36,77,10")
    again = output.BoxFile(str(path), append=True)
    assert again.next_id == 6  # a resumed run does not give a number twice
    again.close()
    assert path.read_text().splitlines() == lines


def test_the_film_keeps_the_time_of_the_input(tmp_path):
    path = tmp_path / "out.mp4"
    film = output.Film(str(path))
    image, scores, mask = np.zeros((9, 8, 3), np.uint8), np.zeros((9, 8), np.float32), np.zeros((9, 8), np.uint8)
    for number, seconds in enumerate((5.0, 5.1, 5.3, 60.0, 59.0)):  # an outage, then a clock that jumps back
        film.write(frames.Frame(number, seconds, image), scores, mask, [])
    film.close()
    with av.open(str(path)) as container:
        pictures = list(container.decode(video=0))
    assert [round(picture.time, 3) for picture in pictures] == [0.0, 0.1, 0.3, 2.3, 2.34]
    assert (pictures[0].width, pictures[0].height) == (32, 10)  # an odd side gets one more line


def test_a_mask_that_finds_the_disk_full_leaves_the_others_whole(pictures, tmp_path, capsys):
    masks, boxes, model = tmp_path / "masks", tmp_path / "boxes.csv", tmp_path / "model.onkel"
    masks.mkdir()
    (masks / "000020.png").mkdir()  # in the way of the twentieth
    assert main([str(pictures), "--masks", str(masks), "--boxes", str(boxes), "--save", str(model), "--quiet"]) == 1
    assert "000020.png: cannot be written" in capsys.readouterr().err
    assert sum(mask.is_file() for mask in masks.iterdir()) == 20
    assert boxes.read_text().startswith("frame,seconds,id")
    assert model.exists()


def test_a_broken_piece_of_a_film_is_told_and_skipped(tmp_path, capsys):
    path = tmp_path / "clip.avi"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("png", rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "rgb24"
        for frame, _ in film("static", 40, 20):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="bgr24")))
        container.mux(stream.encode())
    content = bytearray(path.read_bytes())
    begin = content.index(b"PNG", len(content) // 2)  # where a picture begins
    content[begin : begin + 3] = bytes(3)
    path.write_bytes(content)
    masks = tmp_path / "masks"
    assert main([str(path), "--masks", str(masks), "--quiet"]) == 0
    assert "a broken piece at frame" in capsys.readouterr().err
    assert 36 <= len(list(masks.iterdir())) <= 39


def test_a_damaged_picture_of_a_film_is_told_and_skipped(tmp_path, capsys):
    path = tmp_path / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "10", "bf": "0"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame, _ in film("static", 40, 20):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="bgr24")))
        container.mux(stream.encode())
    content = bytearray(path.read_bytes())
    places = np.random.default_rng(0).integers(len(content) // 2, len(content) * 3 // 4, 40)
    for place in places:
        content[place] ^= 0x5A
    path.write_bytes(content)
    found = [frame.number for frame in frames.read(str(path))]
    told = capsys.readouterr().err
    assert "a broken piece at frame" in told
    assert "broken pieces in all" in told
    assert 20 < len(found) < 40
    assert set(range(15)) < set(found)


def test_a_resumed_model_keeps_its_settings(pictures, tmp_path, capsys):
    model = tmp_path / "model.onkel"
    assert main([str(pictures), "--limit", "2", "--save", str(model), "--quiet"]) == 0
    assert main([str(pictures), "--resume", str(model), "--sigma", "9", "--threads", "1", "--quiet"]) == 1
    assert "--sigma, --threads: a resumed model keeps its settings" in capsys.readouterr().err
    out = tmp_path / "out.mp4"
    assert main([str(pictures), "--resume", str(model), "--resize", "40x30", "--out", str(out), "--quiet"]) == 1
    assert f"frames of {WIDTH}x{HEIGHT}, these are 40x30; give --resize {WIDTH}x{HEIGHT}" in capsys.readouterr().err
    assert not out.exists()
    assert main([str(pictures), "--resume", str(out), "--quiet"]) == 1
    assert capsys.readouterr().err == f"onkel video: --resume {out}: No such file or directory\n"


def test_boxes_are_appended_to_boxes_only(pictures, tmp_path, capsys):
    model, notes = tmp_path / "model.onkel", tmp_path / "notes.csv"
    assert main([str(pictures), "--limit", "2", "--save", str(model), "--quiet"]) == 0
    for text in ("my notes", "frame,name\n1,car\n"):
        notes.write_text(text)
        assert main([str(pictures), "--resume", str(model), "--boxes", str(notes), "--quiet"]) == 1
        assert "something else than boxes" in capsys.readouterr().err
        assert notes.read_text() == text


def test_nothing_that_is_still_needed_is_overwritten(clip, pictures, tmp_path, capsys):
    film, model, whole = tmp_path / "film.mp4", tmp_path / "model.onkel", clip.read_bytes()
    film.write_bytes(whole)
    assert main([str(pictures), "--limit", "2", "--save", str(model), "--quiet"]) == 0
    for options, words in (
        ([str(film), "--out", str(film)], "that is the input"),
        ([str(film), "--save", str(film)], "that is the input"),
        ([str(pictures), "--masks", str(pictures)], "that is the input"),
        ([str(film), "--resume", str(model), "--boxes", str(model)], "that is --resume"),
        ([str(film), "--boxes", str(tmp_path / "one.mp4"), "--out", str(tmp_path / "one.mp4")], "that is --out"),
        ([str(clip), "--out", str(tmp_path / "out.gif")], "a name that ends in .mp4"),
        ([str(clip), "--out", str(tmp_path / "out.mkv")], "a name that ends in .mp4"),  # its muxer hides a full disk for long
        ([str(clip), "--save", str(tmp_path)], "that is a folder"),
    ):
        assert main([*options, "--quiet"]) == 1
        assert words in capsys.readouterr().err
    assert film.read_bytes() == whole
    assert len(list(pictures.iterdir())) == 30
    assert not (tmp_path / "out.gif").exists()
    assert main([str(clip), "--resume", str(model), "--save", str(model), "--quiet"]) == 0


def test_a_size_that_no_memory_holds_is_refused(pictures, capsys):
    with pytest.raises(SystemExit):
        main([str(pictures), "--resize", "99999x99999"])
    assert "width and height from 1 to 8192" in capsys.readouterr().err


def test_an_object_at_the_edge_is_outlined_on_all_sides(tmp_path):
    path = tmp_path / "out.mp4"
    film, mask = output.Film(str(path)), np.zeros((64, 64), np.uint8)
    mask[20:50, 30:] = 255
    film.write(frames.Frame(0, 0.0, np.zeros((64, 64, 3), np.uint8)), np.ones((64, 64)), mask, output.Boxes(4).find(mask))
    film.close()
    with av.open(str(path)) as container:
        picture = next(container.decode(video=0)).to_ndarray(format="rgb24")[:, 192:]
    for column in (30, -1):
        assert picture[30:40, column, 0].min() > 60  # red, over the outline's yellow
        assert picture[30:40, column, 1].max() < 60


def test_a_start_past_the_end_is_told(pictures, capsys):
    assert main([str(pictures), "--start", "30", "--quiet"]) == 1
    assert "no frames from --start 30 on, it has 30" in capsys.readouterr().err


def test_a_large_picture_makes_a_film_that_can_be_played(tmp_path):
    path = tmp_path / "out.mp4"
    film = output.Film(str(path))
    shape = (7, 5001)
    film.write(frames.Frame(0, 0.0, np.zeros((*shape, 3), np.uint8)), np.zeros(shape, np.float32), np.zeros(shape, np.uint8), [])
    film.close()
    with av.open(str(path)) as container:
        assert [(p.width, p.height) for p in container.decode(video=0)] == [(8192, 4)]


def test_what_cannot_be_written_is_told_at_once_and_older_files_stay(pictures, tmp_path, capsys):
    model = tmp_path / "nosuch" / "model.onkel"
    for option in ("--save", "--boxes", "--out"):
        assert main([str(pictures), option, str(model.with_suffix(".mp4")), "--quiet"]) == 1
        assert "is no folder" in capsys.readouterr().err
    old = tmp_path / "out.mp4"
    old.write_text("older")
    assert main([str(tmp_path / "nosuch.mp4"), "--out", str(old), "--quiet"]) == 1
    assert old.read_text() == "older"


def test_components_keep_their_numbers():
    boxes = output.Boxes(min_area=4)
    first, second = np.zeros((20, 40), np.uint8), np.zeros((20, 40), np.uint8)
    first[2:8, 2:8] = first[10:16, 20:26] = 255
    second[2:8, 4:10] = second[10:16, 18:24] = second[1:3, 35:38] = 255
    assert [r[0] for r in boxes.find(first)] == [1, 2]
    assert {(r[0], r[1]) for r in boxes.find(second)} == {(1, 4), (2, 18), (3, 35)}


def test_only_a_component_itself_has_a_say_in_its_number():
    mask = np.zeros((24, 24), np.uint8)
    mask[2:22, 2:22] = 255
    mask[3:21, 3:21] = 0
    mask[6:18, 6:18] = 255  # a square in a frame: its bounding box holds only the square, the frame's holds both
    boxes = output.Boxes(4)
    assert [row[0] for row in boxes.find(mask)] == [row[0] for row in boxes.find(mask)] == [1, 2]


def test_a_whole_picture_with_something_behind_it_is_whole():
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (64, 80, 3), dtype=np.uint8)
    jpeg = cv2.imencode(".jpg", picture)[1].tobytes()
    small = cv2.imencode(".jpg", picture[:16, :16])[1].tobytes()
    header = b"\xff\xe1" + (2 + len(small)).to_bytes(2, "big") + small  # a preview in the header ends before the picture begins
    for _ in range(10):
        assert frames.unpacked(jpeg + rng.bytes(50_000)).shape == (64, 80, 3)  # a phone's moving picture
    whole = jpeg[:2] + header + jpeg[2:]
    assert frames.unpacked(whole).shape == (64, 80, 3)
    for cut in (whole[: len(whole) // 2], whole[: len(header) + 10], jpeg[:-2]):
        with pytest.raises(ValueError, match="cut off"):
            frames.unpacked(cut)


def test_a_limit_ends_the_program_cleanly(tmp_path):
    """The reader must not be in the middle of a picture when the process ends."""
    (tmp_path / "in").mkdir()
    picture = np.random.default_rng(0).integers(0, 256, (720, 1280, 3), dtype=np.uint8)
    for i in range(16):
        cv2.imwrite(str(tmp_path / "in" / f"{i}.png"), picture)
    words = ["video", str(tmp_path / "in"), "--limit", "1", "--quiet", "--masks", str(tmp_path / "m")]
    ended = subprocess.run([sys.executable, "-m", "onkel.cli", *words], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_older_film_stays_where_another_file_cannot_be_written(pictures, tmp_path, capsys):
    (tmp_path / "old.mp4").write_bytes(b"old")
    (tmp_path / "masks").write_bytes(b"a file")
    assert main([str(pictures), "--out", str(tmp_path / "old.mp4"), "--masks", str(tmp_path / "masks"), "--quiet"]) == 1
    assert (tmp_path / "old.mp4").read_bytes() == b"old"


def test_a_model_that_has_seen_nothing_can_be_resumed(pictures, tmp_path):
    onkel.save(BackgroundSubtractor(budget=3), tmp_path / "new.onkel")
    assert main([str(pictures), "--resume", str(tmp_path / "new.onkel"), "--masks", str(tmp_path / "m"), "--quiet"]) == 0


def test_a_picture_that_unpacks_to_more_than_is_allowed_is_skipped_before(pictures, tmp_path, capsys):
    masks = tmp_path / "masks"
    huge = bytearray((pictures / "in3.png").read_bytes())
    huge[16:24] = (15000).to_bytes(4, "big") * 2  # what its header promises
    (pictures / "in3.png").write_bytes(huge)
    assert main([str(pictures), "--masks", str(masks), "--quiet"]) == 0
    assert "in3.png: 15000x15000 has more than --max-pixels 67108864" in capsys.readouterr().err
    assert len(list(masks.iterdir())) == 29
    assert main([str(pictures), "--max-pixels", "100", "--quiet"]) == 1
    assert f"{WIDTH}x{HEIGHT} has more than --max-pixels 100" in capsys.readouterr().err


def test_one_row_of_many_pixels_makes_a_film(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    for i in range(2):
        cv2.imwrite(str(folder / f"{i}.png"), np.full((1, 100_000, 3), 90, np.uint8))
    assert main([str(folder), "--out", str(tmp_path / "rows.mp4"), "--quiet"]) == 0


@pytest.mark.parametrize("option", ["--out", "--boxes", "--masks", "--save"])
def test_nothing_is_written_to_a_file_called_dash(option, pictures, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([str(pictures), option, "-", "--quiet"]) == 1
    assert f"{option} -: it is not written to the terminal" in capsys.readouterr().err
    assert not (tmp_path / "-").exists()
