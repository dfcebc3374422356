"""DirectML: tensor descriptors, operators, the lowering to them, lowered programs with their files, and the device."""
