"""File formats of data sets. Files are treated as untrusted input."""
