"""An outbound-only agent that runs deployments in Kubernetes clusters, and the manager that hands them out."""

__version__ = "0.1.0"
