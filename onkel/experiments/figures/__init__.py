"""One file for each figure or claim of the papers; its docstring says what the paper shows.

Each file ends in one EXPERIMENT.  Imports the library, experiments/shared and experiments/experiment.
"""
