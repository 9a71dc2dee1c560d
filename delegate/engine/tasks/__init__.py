"""One module per task kind, the steps that they share, and the one builder that wires an engine."""
