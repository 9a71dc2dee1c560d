"""Decoded sources kept in memory: a commit that changes nothing below a path costs no decoding.

Kept is the encoded form, which is a fraction of the decoded one, is decoded ten times faster than YAML, and gives each
render objects of its own.
"""

import threading
from collections import OrderedDict

import msgspec

from delegate.engine.sources.loader.documents import Lines
from delegate.engine.sources.loader.files import Loaded
from delegate.model.resources import JsonObject, Manifest, Origin

_OVERHEAD_BYTES = 300
"""What an object takes beside its body: origin, lines, headers."""


class _Packed(msgspec.Struct, frozen=True):
    bodies: tuple[bytes, ...]
    origins: tuple[Origin, ...]
    lines: tuple[Lines, ...]
    notices: tuple[str, ...]
    size_bytes: int


class RenderCache:
    """The sources used last, up to a number of bytes. Threads may use it at once."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._packed: OrderedDict[str, _Packed] = OrderedDict()
        self.size_bytes = 0

    def get(self, key: str) -> Loaded | None:
        with self._lock:
            packed = self._packed.get(key)
            if packed is None:
                return None
            self._packed.move_to_end(key)
        decoder = msgspec.json.Decoder(JsonObject)
        manifests = tuple(Manifest(decoder.decode(body), origin) for body, origin in zip(packed.bodies, packed.origins, strict=True))
        return Loaded(manifests, packed.lines, packed.notices)

    def put(self, key: str, loaded: Loaded) -> None:
        bodies = tuple(msgspec.json.encode(manifest.body) for manifest in loaded.manifests)
        size = sum(map(len, bodies)) * 2 + _OVERHEAD_BYTES * len(bodies)
        if size > self._limit_bytes:
            return
        packed = _Packed(bodies, tuple(manifest.origin for manifest in loaded.manifests), loaded.lines, loaded.notices, size)
        with self._lock:
            replaced = self._packed.pop(key, None)
            self._packed[key] = packed
            self.size_bytes += size - (replaced.size_bytes if replaced else 0)
            while self.size_bytes > self._limit_bytes:
                _, oldest = self._packed.popitem(last=False)
                self.size_bytes -= oldest.size_bytes
