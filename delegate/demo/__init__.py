"""The whole story on one machine: a manager, a delegate, a simulated cluster and a Git repository, and what they do together."""
