"""Which unit a file's name stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

KINDS = {".py": 0, ".ipynb": 1}  # the smaller is taken first
ZIP = ".zip"
# what systems, editors and package managers leave behind
PASSED_OVER = re.compile(r"^(\.(?!\.$)|__MACOSX$|__pycache__$|node_modules$|site-packages$)")
# what browsers, learning platforms and people add to a file's name
ADDED = re.compile(r"[\s_\-.]*(\(\d+\)|\[\d+\]|copy|kopie|final|solution|v?\d+)$")
TESTS = re.compile(r"(^|[\W_])tests?([\W_]|$)")
MAX_NAME = 255  # characters; a zip's entries may have longer ones, made to keep a regular expression busy

EXACT, SUFFIXED, PREFIXED, CONTAINED = range(4)


def unit_of(name: str, units: Sequence[str]) -> tuple[str, int] | None:
    """(unit, how well the name fits it: EXACT is best), or None. The kind of file is not looked at."""
    stem = PurePosixPath(name).stem
    if stem in units:
        return stem, EXACT
    bare = stem.lower()
    if len(name) > MAX_NAME or TESTS.search(bare):
        return None
    spellings = [bare]
    while (shorter := ADDED.sub("", spellings[-1])) != spellings[-1]:
        spellings.append(shorter)
    for fit, form in ((SUFFIXED, r"^{}$"), (PREFIXED, r"[\W_]{}$"), (CONTAINED, r"(^|[\W_]){}[\W_]")):
        for unit in units:
            pattern = form.format(re.escape(unit.lower()))
            if any(re.search(pattern, spelling) for spelling in spellings):
                return unit, fit
    return None


def kind(name: str) -> str:
    """The ending that tells what a file is, in small letters: `.py`, `.ipynb`, `.zip`."""
    return PurePosixPath(name).suffix.lower()


def has_kind(name: str) -> bool:
    """Whether a file of this name could be, or could hold, a submission."""
    return kind(name) in KINDS or kind(name) == ZIP
