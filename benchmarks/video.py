"""python benchmarks/video.py: frames per second beside OpenCV's subtractors; the same as `onkel bench video`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from onkel.video.bench import bench_video

if __name__ == "__main__":
    sys.exit(bench_video(sys.argv[1:]))
