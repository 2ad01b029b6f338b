"""python benchmarks/video_gpu.py: the part of `onkel bench video` that needs a graphics card, alone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from onkel.bench.video_gpu import gpu_report

if __name__ == "__main__":
    print("\n".join(gpu_report()))
