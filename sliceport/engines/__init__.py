"""What computes slicing nodes: engines, and how their results are compared."""
