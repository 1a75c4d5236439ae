"""Tests of the documentation: code blocks run, every figure has its command, and the site builds without warnings."""
