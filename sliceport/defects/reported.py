"""The entries of `reported.toml`: reports by users, and single runs of engines that no test here runs."""

from __future__ import annotations

from sliceport.defects.entries import read_entries

REPORTED = read_entries("reported")
