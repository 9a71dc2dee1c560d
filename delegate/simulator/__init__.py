"""A Kubernetes API server and its controllers in memory, for the demo, the tests and people without a cluster.

A request's way: `server` (the process), `handlers` (who asks, may they, which verb), `writes` and `deletions` (what is to become of
an object), `storing` (defaults, `admission`, `validation`, allocation), `store` (versions, and the log that `watches` read). What
isn't a resource is in `documents`. `registry` holds all of the state. `controllers` react to the store as a controller manager does;
`behaviors` says what becomes of pods.

Field types come from the OpenAPI definitions of kubernetes-validate (`schemas`, `kinds`); `ownership` and `merging` are server-side
apply; `customs` makes kinds of definitions. What no schema says is written down: `defaults`, `zeroes`, `immutability`, `validation`,
`columns`, `wiretypes`. docs/simulator.md says what it is held to, and what it doesn't do.
"""
