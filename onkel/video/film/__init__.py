"""`onkel video`: frames in from files, folders, cameras and addresses; masks, films and boxes out.

Imports OpenCV and PyAV, which the extra `video` brings.
"""
