"""Facts that follow from a model: shapes, element types and constants."""
