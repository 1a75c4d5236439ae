"""Validated, frozen settings, read from TOML or given as Python objects. Nothing here imports torch."""

from airfl.config.differences import differences
from airfl.config.given import Config, Overrides
from airfl.config.json_numbers import to_json
from airfl.config.load import Row, load_rows, load_settings
from airfl.config.settings import Settings

__all__ = ["Config", "Overrides", "Row", "Settings", "differences", "load_rows", "load_settings", "to_json"]
