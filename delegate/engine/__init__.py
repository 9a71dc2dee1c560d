"""What a task does. Knows no manager: `delegate exec` and the daemon run the same code."""
