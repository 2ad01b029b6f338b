"""`onkel video`: cameras, addresses and signals, and what overlaps with what."""

from __future__ import annotations

import csv
import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")
av = pytest.importorskip("av")

import onkel  # noqa: E402
from onkel.video import BackgroundSubtractor  # noqa: E402
from onkel.video.cli import main  # noqa: E402
from onkel.video.film import frames  # noqa: E402
from onkel.video.film import outputs as output  # noqa: E402
from onkel.video.film.pipeline import Ahead  # noqa: E402

from .scenes import HEIGHT, WIDTH, film  # noqa: E402


@pytest.mark.parametrize(("argument", "words"), [("nosuch.mp4", "no such file"), ("/dev/video97", "camera 97: gave up (cannot")])
def test_bad_inputs_say_what_to_do(argument, words, capfd):
    assert main([argument, "--retries", "0", "--quiet"]) == 1
    assert words in capfd.readouterr().err


def test_a_lost_stream_is_opened_again_with_growing_pauses(monkeypatch, capsys):
    image = np.zeros((4, 4, 3), np.uint8)
    script = [["frame", "frame", "lost"], ["lost"], ["lost"], ["frame", "lost"], ["lost"], ["lost"], ["lost"]]

    def connect(source, remote=False, limits=None):
        assert remote
        for what in script.pop(0):
            if what == "lost":
                raise frames.InputError("connection lost")
            yield frames.Frame(0, 0.0, image, live=True, fleeting=True)

    monkeypatch.setattr(frames, "decoded", connect)
    pauses, got = [], []
    stream = frames.read("rtsp://camera", retries=3, wait=pauses.append)
    with pytest.raises(frames.InputError, match="gave up after 3 attempts"):
        got.extend(frame.number for frame in stream)
    assert got == [0, 1, 2]  # numbers go on across the gap
    assert pauses == [1.0, 2.0, 4.0, 1.0, 2.0, 4.0]
    assert "back after 3 attempts" in capsys.readouterr().err


def test_a_webcam_that_goes_away_comes_back(monkeypatch):
    class Camera:
        def __init__(self, index):
            assert index == 3
            self.left = 2

        def isOpened(self):
            return True

        def read(self):
            self.left -= 1
            return self.left >= 0, np.zeros((4, 4, 3), np.uint8)

        def release(self):
            pass

    monkeypatch.setattr(cv2, "VideoCapture", Camera)
    pauses = []
    stream = frames.read("3", wait=pauses.append)
    got = [next(stream) for _ in range(6)]
    assert [frame.number for frame in got] == list(range(6))
    assert all(frame.live for frame in got)
    assert pauses == [1.0, 1.0]


@contextmanager
def served(*connections, length=False, cut=0):
    """An address that answers the first requests with these lists of frames, as a camera does, and the others with 404.

    With `length` they are the bytes of a file; with `cut`, connections break after so many, and go on from where one asks.
    """
    waiting = list(connections)

    class Camera(BaseHTTPRequestHandler):
        def do_GET(self):
            if not waiting:
                self.send_error(404)
                return
            images = waiting.pop(0)
            begin = int(self.headers.get("Range", "bytes=0-")[6:].partition("-")[0]) if cut else 0
            self.send_response(206 if cut else 200)
            if length:
                self.send_header("Content-Type", "video/x-matroska")
                self.send_header("Content-Length", str(len(images) - begin))
                if cut:
                    self.send_header("Content-Range", f"bytes {begin}-{len(images) - 1}/{len(images)}")
                self.end_headers()
                with suppress(OSError):  # the reader has gone
                    self.wfile.write(images[begin : begin + cut] if cut else images)
                return
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
            self.end_headers()
            with suppress(OSError):  # the reader has gone
                for image in images:
                    jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes()
                    head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
                    self.wfile.write(head.encode() + jpeg + b"\r\n")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Camera) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://user:secret@127.0.0.1:{server.server_port}/camera"
        server.shutdown()


def test_a_camera_over_http_goes_away_and_comes_back(capsys):
    shots = [frame for frame, _ in film("static", 24, 12)]
    pauses, got = [], []
    with served(shots[:12], shots[12:]) as address:
        with pytest.raises(frames.InputError, match="gave up after 2 attempts"):
            got.extend(frames.read(address, retries=2, wait=pauses.append))
    told = capsys.readouterr().err
    assert pauses == [1.0, 1.0, 2.0]
    assert "back after 1 attempt" in told
    assert "secret" not in told
    assert [frame.number for frame in got] == list(range(len(got)))
    assert len(got) >= 20  # a cut may cost the last picture of a connection
    assert all(frame.live and frame.fleeting for frame in got)
    assert np.abs(got[0].image.astype(float) - shots[0]).mean() < 4


def test_a_file_behind_an_address_is_read_once(clip):
    with served(clip.read_bytes(), length=True) as address:
        assert sum(1 for _ in frames.read(address, retries=0)) == 40


def test_a_growing_list_of_pieces_is_opened_again_and_waits(tmp_path):
    """HTTP live streaming: a list without an end, which breaks."""
    with av.open(str(tmp_path / "list.m3u8"), "w", format="hls", options={"hls_time": "1"}) as container:
        stream = container.add_stream("libx264", rate=25, options={"g": "25"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame, _ in film("static", 75):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="bgr24")))
        container.mux(stream.encode())
    growing = (tmp_path / "list.m3u8").read_text().replace("#EXT-X-ENDLIST\n", "")
    lists = [growing]

    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path))

        def do_GET(self):
            if not self.path.endswith(".m3u8"):
                super().do_GET()
            elif not lists:
                self.send_error(404)
            else:
                content = lists.pop(0).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/vnd.apple.mpegurl")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    got = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(frames.InputError, match="gave up after 1 attempt "):
            got.extend(frames.read(f"HTTP://127.0.0.1:{server.server_port}/list.m3u8", retries=1, wait=lambda _: None))
        server.shutdown()
    assert len(got) >= 75
    assert all(frame.live and not frame.fleeting for frame in got)


def test_a_file_behind_an_address_goes_on_where_the_connection_broke(clip):
    content = clip.read_bytes()
    with served(*[content] * 20, length=True, cut=len(content) // 2) as address:
        assert sum(1 for _ in frames.read(address, retries=0)) == 40


def test_an_answer_that_there_is_no_such_video_is_final(tmp_path, capsys):
    with served() as address:
        assert main([f"{address}?channel=1&pwd=secret", "--quiet"]) == 1
    told = capsys.readouterr().err
    assert "404" in told
    assert "attempt" not in told
    assert "secret" not in told
    note = tmp_path / "note.txt"
    note.write_text("hello")
    with served(note.read_bytes(), length=True) as address:
        assert main([address.replace("secret", "se/cr@t"), "--quiet"]) == 1
    told = capsys.readouterr().err
    assert "attempt" not in told
    assert "se/cr" not in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_endless_stream_is_ended_by_a_signal(number, tmp_path, capsys):
    out, masks, boxes, model = (tmp_path / name for name in ("out.mp4", "masks", "boxes.csv", "model.onkel"))

    def endless():
        for shot, _ in film("static", 3000, 0):
            yield shot
            if masks.exists() and len(list(masks.iterdir())) > 10:
                os.kill(os.getpid(), number)
                return
            time.sleep(0.005)

    with served(endless()) as address:
        options = ["--out", str(out), "--masks", str(masks), "--boxes", str(boxes), "--save", str(model), "--quiet"]
        assert main([address, *options]) == 128 + number
    assert "interrupted; finishing the files" in capsys.readouterr().err
    for thread in threading.enumerate():
        if thread.name == "onkel-read":
            thread.join(20)
            assert not thread.is_alive()  # does not try for ever to open it again
    written = len(list(masks.iterdir()))
    with av.open(str(out)) as container:
        assert sum(1 for _ in container.decode(video=0)) == written
    assert len({row["frame"] for row in csv.DictReader(boxes.read_text().splitlines())}) > 3
    assert onkel.load(model).getBackgroundImage().shape == (HEIGHT, WIDTH, 3)


def test_frames_of_a_camera_that_come_too_fast_are_left_out_and_those_of_a_file_are_not():
    def shots(fleeting):
        for i in range(100):
            yield frames.Frame(i, 0.0, np.zeros((2, 2, 3), np.uint8), fleeting, fleeting)

    late = Ahead(shots(True), Event(), depth=4)
    while late.left_out < 96:  # all is read before the first frame is asked for
        time.sleep(0.01)
    assert [frame.number for frame in late] == [96, 97, 98, 99]
    assert len(list(Ahead(shots(False), Event(), depth=4))) == 100


def test_reading_computing_and_writing_overlap(monkeypatch, pictures, tmp_path):
    """Writing the first frame waits until the fifth has been read and the third been computed."""
    read, computed = Event(), Event()
    reading, applying, writing = frames.unpacked, BackgroundSubtractor.apply, output.Masks.write
    counts = {"read": 0, "computed": 0}

    def count(what, event, enough):
        counts[what] += 1
        if counts[what] == enough:
            event.set()

    def unpacked(content, *limits):
        count("read", read, 5)
        return reading(content, *limits)

    def apply(self, image):
        count("computed", computed, 3)
        return applying(self, image)

    def write(self, number, mask):
        assert read.wait(20)
        assert computed.wait(20)
        writing(self, number, mask)

    monkeypatch.setattr(frames, "unpacked", unpacked)
    monkeypatch.setattr(BackgroundSubtractor, "apply", apply)
    monkeypatch.setattr(output.Masks, "write", write)
    assert main([str(pictures), "--masks", str(tmp_path / "masks"), "--quiet"]) == 0
    assert len(list((tmp_path / "masks").iterdir())) == 30


def test_a_camera_is_asked_when_all_is_compiled(monkeypatch, tmp_path):
    """And as many frames as --limit says are looked at, however many are left out."""
    applied, applying = [], BackgroundSubtractor.apply

    def apply(self, image):
        applied.append(image.shape)
        return applying(self, image)

    def camera(*_, **__):
        assert len(applied) >= 2
        for i, (shot, _) in enumerate(film("static", 200)):
            yield frames.Frame(i, i / 25, shot, live=True, fleeting=True)
            time.sleep(0.001)

    monkeypatch.setattr(BackgroundSubtractor, "apply", apply)
    monkeypatch.setattr(frames, "decoded", camera)
    assert main(["rtsp://camera", "--limit", "5", "--masks", str(tmp_path / "masks"), "--retries", "0", "--quiet"]) == 0
    assert len(list((tmp_path / "masks").iterdir())) == 5


def test_reading_goes_on_after_a_bad_piece(clip, monkeypatch):
    import av

    class Stumbling:
        """A container whose reading fails once; a generator that has failed gives nothing more."""

        def __init__(self, container):
            self.container, self.read = container, 0

        def __getattr__(self, name):
            return getattr(self.container, name)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.container.close()

        def demux(self, stream):
            for packet in self.container.demux(stream):
                self.read += 1
                if self.read == 10:
                    raise av.error.InvalidDataError(1094995529, "a bad piece")
                yield packet

    whole = len(list(frames.decoded(str(clip))))
    opened = av.open
    monkeypatch.setattr(av, "open", lambda *given, **more: Stumbling(opened(*given, **more)))
    assert len(list(frames.decoded(str(clip)))) >= whole - 2


def test_what_an_address_may_lead_to():
    from onkel.video.film.frames import Limits, _options

    assert "file" not in _options("http://camera/list.m3u8", True, Limits())["protocol_whitelist"].split(",")
    assert "http" not in _options("list.m3u8", False, Limits())["protocol_whitelist"].split(",")
    assert "udp" in _options("list.m3u8", False, Limits(protocols="udp"))["protocol_whitelist"].split(",")
