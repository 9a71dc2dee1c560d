"""Dead letters: what can't be read, delivered or done any more, kept on disk and moved to a bucket. Never dropped in silence."""
