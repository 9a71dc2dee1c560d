"""Counts of requests by verb, resource and user, so that tests can say «no write» or «at most 25 requests»."""

from collections import Counter
from typing import NamedTuple

from delegate.simulator.requests import RequestInfo

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class RequestKey(NamedTuple):
    """`resource` carries the subresource after a slash; paths that are no resource count under the path itself."""

    verb: str
    resource: str
    user: str


class Requests(Counter[RequestKey]):
    """A counter over `RequestKey`; dry runs count under the verb with `:dry-run` behind it."""

    def note(self, info: RequestInfo, user: str, *, dry_run: bool) -> None:
        resource = info.path
        if info.is_resource:
            resource = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
        self[RequestKey(f"{info.verb}:dry-run" if dry_run else info.verb, resource, user)] += 1

    def count(self, verb: str = "", resource: str = "", user: str = "") -> int:
        """How many requests match; an empty word matches all."""
        return sum(
            number
            for key, number in self.items()
            if (not verb or key.verb == verb) and (not resource or key.resource == resource) and (not user or key.user == user)
        )

    def writes(self, user: str = "") -> int:
        """Requests that may have changed something (dry runs don't count)."""
        return sum(number for key, number in self.items() if key.verb in WRITES and (not user or key.user == user))
