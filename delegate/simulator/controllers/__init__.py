"""What a controller manager does, against the store: each module one controller, all of them run by `manager`."""
