"""The manager's pages: rendered on the server, readable without scripts, changing nothing."""
