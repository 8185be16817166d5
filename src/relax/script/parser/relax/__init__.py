"""The namespace `R` of scripts."""
