"""The long-running process beside a cluster. `service` builds its parts and wires them; the parts don't know each other."""
