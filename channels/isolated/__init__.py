"""Reading untrusted files in separate processes.

HDF5 and scipy parse file metadata in C. In a damaged file, a few out of a thousand flipped bytes crash the process that
reads it, or make it loop forever.
"""
