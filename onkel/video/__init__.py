"""Moving objects in video: one budgeted novelty detector per pixel (Cheng et al., SILK), on CPU and GPU.

>>> from onkel.video import BackgroundSubtractor
"""

from .subtractor import BackgroundSubtractor

__all__ = ["BackgroundSubtractor"]
