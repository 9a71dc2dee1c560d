"""The hosts of repositories beyond Git: merge requests, comments on them, statuses of commits. One module a kind, one interface."""
