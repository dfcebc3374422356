"""The verdict on computed values: comparison, tolerance, and before and after a change."""
