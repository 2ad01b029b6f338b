"""The benchmark: ours and the peers in one run, as ratios, with the machine's limits beside them (docs/speed.md).

Streams made from a seed come in; a race is timed by `measure` alone, and what is no race prints a table of its own.
Imports the library, and the peers inside the functions that need them.
"""
