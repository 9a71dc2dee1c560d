"""What the API server refuses in objects: rules by kind, in the words of its own validation."""
