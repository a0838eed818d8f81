"""Proofs of what Outrider promises; run.py lists and runs them."""
