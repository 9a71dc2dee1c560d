"""Charts from repositories: HTTP with an index, and OCI registries.

`archives` reads what was fetched without unpacking it onto a disk, `indexes` and `registries` are the two kinds of
repositories, `repositories` is what sources use.
"""
