"""What several figures have in common: learners and their grids, baselines, images, films.

Whatever decides the numbers of more than one figure belongs here.  Imports the library.
"""
