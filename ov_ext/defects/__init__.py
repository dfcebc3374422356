"""Defects of OpenVINO: the conditions that find them, `check` and `harden`."""
