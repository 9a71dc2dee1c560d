"""Server defaults of the built-in kinds: one table of functions, held to the recordings.

`apply_defaults` changes the object it is given, which must be the caller's own (decoded just before).
"""

from collections.abc import Callable

from delegate.model.resources import JsonObject
from delegate.simulator.defaults import networking, policies, storage, workloads

Default = Callable[[JsonObject], None]

TABLE: dict[tuple[str, str], Default] = {**workloads.TABLE, **networking.TABLE, **policies.TABLE, **storage.TABLE}
"""By group and kind; kinds of several versions look at `apiVersion` themselves."""


def apply_defaults(group: str, kind: str, body: JsonObject) -> None:
    default = TABLE.get((group, kind))
    if default is not None:
        default(body)
