"""Commands that re-make the tables and figures of the four papers."""
