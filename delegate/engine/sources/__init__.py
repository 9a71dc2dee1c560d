"""Manifests in: from Git repositories, and for local commands from directories and files.

`manifests.Sources` is what the rest of the engine uses: `resolve` says which commit a source means, `render` gives its
objects, each with the place that it was written at. `loader` decodes, `git` fetches and reads, `trees` and `globs` choose
files, `directories` reads local ones, `commands` runs child processes, `errors` holds every fault of all of them.
"""
