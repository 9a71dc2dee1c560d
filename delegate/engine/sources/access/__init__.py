"""How to present ourselves to repositories: credentials, certificates and host keys, in Argo CD's formats.

`entries` reads Secrets and decides which one is for which address (pure), `books` keeps what a directory or a cluster holds
of them up to date, `github` gets tokens as a GitHub App.
"""
