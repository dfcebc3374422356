"""Reports by users of engines that no test here can run: the entries of `reported.toml`, by their ids."""

from __future__ import annotations

from sliceport.defects.entries import read_entries

REPORTED = read_entries("reported")
