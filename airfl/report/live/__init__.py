"""The page that follows runs while they go on: what it shows is read from the runs' own files, see `follow`."""

from airfl.report.live.server import WatchServer
from airfl.report.live.watched import Watched

__all__ = ["WatchServer", "Watched"]
