"""Names that are made: for what has only a generateName, and for dry runs of what must not meet the object that is there."""

import hashlib

_LONGEST = 63  # what a Job, a Service or a label may have; other kinds may have more and need no more
_LONGEST_STEM = 40  # with what is added still short enough for a CronJob (52)


def generated_name(prefix: str, digest: str) -> str:
    """The prefix, cut to what fits, and the digest: the same again for the same two."""
    return f"{prefix[: _LONGEST - len(digest)]}{digest}"


def throwaway_name(name: str) -> str:
    """A name that nothing has, valid for each kind that the name is valid for."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    stem = name[:_LONGEST_STEM].rstrip("-.")
    return f"{stem}-{digest}"
