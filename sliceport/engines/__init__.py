"""Engines, which compute slicing nodes, and the comparison of their results."""
