"""Files from outside, looked at in a process of their own.

HDF5 and scipy parse in C what a damaged file says of itself: of a thousand flipped bytes a few end the process that
reads it, or lead it in circles.
"""
