"""The rules of the subtractor, compiled: one tiny learner for each pixel, a crew of threads over the rows.

Imports core/machine to compile, and video/settings.
"""
