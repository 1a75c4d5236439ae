"""Getting data sets: what from where (sources.py), resumed and checked (download.py), never over what is there."""
