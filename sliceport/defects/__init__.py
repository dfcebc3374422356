"""Known defects of engines: one table, a file for each family of engines, and the code that reads it."""
