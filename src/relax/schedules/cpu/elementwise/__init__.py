"""Element-wise nests: copies, transposes and what is computed of each element."""
