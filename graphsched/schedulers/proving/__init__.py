"""Scheduling as a constraint model, for proofs of what is best."""
