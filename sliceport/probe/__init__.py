"""A search whose runs happen on another machine."""
