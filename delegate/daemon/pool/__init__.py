"""Bounded work: slots, one task per application and cluster, lease keeping, parking, and the worker boundary."""
