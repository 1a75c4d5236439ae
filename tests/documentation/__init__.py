"""The documentation: every code block runs, every figure has its command, the site builds without a warning."""
