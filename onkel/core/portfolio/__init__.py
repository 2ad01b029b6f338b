"""Many members on one set of shared points: views of a row, kernels whose metric moves, linear members, and who is believed.

Arrays and plain numbers come in; classes are 0, 1, 2 in the order in which they turned up.  Imports core.machine only.
"""
