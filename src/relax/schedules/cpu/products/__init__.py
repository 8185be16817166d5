"""Products of matrices: rules, the loops over panels and blocks, and packing of constant operands."""
