"""The control plane: a durable queue that hands tasks to delegates, and what people need to see and steer it.

A request comes in through `api`, is decided by plain functions of a transaction in `store`, and whoever waits for its effects
is woken by `dispatch` after the commit. `attempts` and `explanations` are pure: who has authority, and why a task waits.
"""
