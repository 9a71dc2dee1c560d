"""Pure domain values and decisions. Nothing here does I/O, waits, or knows who calls it."""
