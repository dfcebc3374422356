"""Known defects of engines: one table, a file for each family of engines, and what asks it."""
