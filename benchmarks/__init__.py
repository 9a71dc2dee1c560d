"""What this project costs, measured: each subject against a peer or a raw limit in the same run, on the same machine.

`python -m benchmarks [NAME ...] [--json FILE]` runs them (`make bench` runs all). One module a subject, each with `measure`;
`subjects` lists them with their bounds. `reports` says what a figure is. What is compared, and what was measured, is in
docs/benchmarks.md.
"""
