"""How much a source may hold. Each bound is far past honest use, and its refusal names it."""

import msgspec

KIBIBYTE = 2**10
MEBIBYTE = 2**20

CONFIG_DATA_BYTES = MEBIBYTE
"""What the API server takes as the data of one ConfigMap or Secret (`MaxSecretSize` in kubernetes/pkg/apis/core)."""
OBJECT_BYTES = 3 * MEBIBYTE // 2
"""What etcd takes as one value by default (`--max-request-bytes`)."""


class SourceLimits(msgspec.Struct, frozen=True):
    """Bounds of one source.

    `nodes`, `depth` and the two `alias_` bounds hold for one file, after the expansion of aliases; `cache_bytes` for all
    decoded sources that are kept in memory; `submodules` are those that one source is read from, within each other up to
    `submodule_depth`; `faults` is how many of a set are told before the rest is only counted.
    """

    files: int = 10_000
    file_bytes: int = 16 * MEBIBYTE
    total_bytes: int = 48 * MEBIBYTE
    nodes: int = 2_000_000
    depth: int = 200
    alias_nodes: int = 100_000
    alias_bytes: int = 8 * MEBIBYTE
    directory_depth: int = 64
    listing_bytes: int = 64 * MEBIBYTE
    cache_bytes: int = 16 * MEBIBYTE
    submodules: int = 64
    submodule_depth: int = 8
    faults: int = 500
    notices: int = 20
