"""Strict checks of manifests against the schemas of Kubernetes, offline: unknown fields, wrong types, missing required fields.

`definitions` is a condensed copy of the API's own definitions (22 KiB), so that neither a cluster nor another package is needed;
`condensing` makes it; `checking` compares. What only the API server can tell (bounds, formats, references) is left to its dry run.
"""
