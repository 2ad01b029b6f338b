"""A clip and a folder of pictures of the moving square."""

from __future__ import annotations

import pytest

from .scenes import HEIGHT, WIDTH, film


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A lossless clip of the moving square."""
    av = pytest.importorskip("av")
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
    cv2 = pytest.importorskip("cv2")
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i, (frame, _) in enumerate(film("static", 30, 15)):
        cv2.imwrite(str(folder / f"in{i}.png"), frame)
    return folder
