"""From other people's files to a table of numbers."""

from scalefit.ingest.options import ReadOptions
from scalefit.ingest.read import read_table

__all__ = ["ReadOptions", "read_table"]
