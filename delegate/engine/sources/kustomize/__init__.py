"""Kustomizations as sources, rendered by kubectl (or kustomize) in a jail.

`documents` reads a kustomization, `closures` finds the files that it needs, in its repository alone, `editing` writes an
Application's options into it, `rendering` runs the program, `origins` says which file each object came from.
"""
