"""What every other room stands on: errors, settings, lifecycle and telemetry. Knows no domain word."""
