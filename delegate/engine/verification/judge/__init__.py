"""Statistics that tell a new version from an old one: pure, exact where samples are few, the same answer each time."""
