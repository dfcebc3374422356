"""Known defects of engines: one table in several TOML files, and the code that reads it."""
