"""Canaries as values: what is wanted, which shares can be reached, what stands in the journal, and what may follow what."""
