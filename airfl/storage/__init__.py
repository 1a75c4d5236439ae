"""Files: which belong to airfl, locks, atomic replacement, caches, shipped resources and fingerprints.

The trace format is in `trace/`.
"""
