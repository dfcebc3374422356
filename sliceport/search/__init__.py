"""Two engines, or two models, side by side: the first node that differs, and the smallest model that shows it."""
