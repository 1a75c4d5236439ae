"""File formats of data sets, each read as what an enemy may have written."""
