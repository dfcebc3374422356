"""The entries of `reported.toml`: reports by users, and single runs of engines that no test here runs."""

from sliceport.defects.entries import read_entries

REPORTED = read_entries("reported")
