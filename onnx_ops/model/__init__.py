"""A model as it is written: reading, checking, walking and writing it."""
