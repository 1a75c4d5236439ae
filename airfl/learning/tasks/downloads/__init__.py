"""Download of data sets: the sources (sources.py), and transfers that are resumed and checked (download.py).

Existing files are never overwritten.
"""
