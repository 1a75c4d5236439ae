"""python -m airfl: the command line."""

from airfl.cli import main

main()
