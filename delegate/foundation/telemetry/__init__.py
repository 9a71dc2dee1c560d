"""What the program tells about itself: logs, metrics, probes, and the word to systemd."""
