"""Make what students get, and nothing more, from the single source of each unit."""

from autograder.release.release import release_units
from autograder.release.source import ReleaseError, UnitSource, read_source

__all__ = ["ReleaseError", "UnitSource", "read_source", "release_units"]
