"""Health rules of kinds that controllers beyond Kubernetes bring, as data: one file a project, in the form that docs/health.md shows."""
