"""What kubectl shows of the built-in kinds: the columns of the server's printers (kubernetes `printers/internalversion`).

`base` has what printers are made of; `workloads`, `networking` and `cluster` have the printers themselves.
"""

from delegate.simulator.columns import cluster, networking, workloads
from delegate.simulator.columns.base import Column, Printer

__all__ = ["PRINTERS", "Column", "Printer"]

PRINTERS: dict[tuple[str, str], Printer] = {**workloads.PRINTERS, **networking.PRINTERS, **cluster.PRINTERS}
"""By group and kind; others show their name and when they were created."""
