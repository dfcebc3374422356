"""DirectML: tensor descriptors, operators, the lowering to them, and what a lowered program is and becomes."""
