"""The version of sliceport, from which the build takes that of the wheel."""

__version__ = "0.1.0"
