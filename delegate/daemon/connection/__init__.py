"""The way to the manager: the session, the work lane, the control lane, and the outbox on disk."""
