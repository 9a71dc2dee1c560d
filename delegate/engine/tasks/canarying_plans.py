"""What the driver of a canary is given: the plan, and what runs its checks and makes the new version the stable one."""

from collections.abc import Awaitable, Callable

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.registry import Cluster
from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import Load
from delegate.model.rollouts.specs import CanarySpec
from delegate.model.rollouts.versions import digest, images_of
from delegate.model.rollouts.workloads import Tracks

RunChecks = Callable[[tuple[str, ...], "Evidence"], Awaitable[str]]
"""Runs the named checks; their evidence in words. Raises CanaryFailedError where they don't pass, for whatever reason."""

AskStable = Callable[["Evidence"], Awaitable[str]]
"""What the checks that have failed say of the stable version, where they fail of it too; empty where they don't, or can't say."""


class Evidence(msgspec.Struct, frozen=True):
    """Of what, and since when (RFC 3339), evidence counts: the new pods, with their `load` in force.

    They are those of the newest revision of `kind` `canary`: `count` of them, or all that it wants; `preview`: the Service by which they
    alone are reached, empty without a router. `step` is the one in work.
    """

    namespace: str
    workload: str
    canary: str
    since: str
    load: Load
    preview: str = ""
    kind: str = "Deployment"
    count: int | None = None
    step: int = 0


class Plan(msgspec.Struct, frozen=True):
    """What one canary is about. `template` is the new version's; `copies` the config objects that it reads.

    `base` is the stable version's template; `inside` is there where a source brings the new version into the stable set itself.
    """

    spec: CanarySpec
    application: str
    template: JsonObject
    tracks: Tracks
    fail_fast_after: float
    copies: tuple[JsonObject, ...] = ()
    kept: tuple[tuple[str, JsonObject], ...] = ()
    autoscalers: tuple[str, ...] = ()
    base: JsonObject = {}
    inside: "Inside | None" = None

    @property
    def version(self) -> str:
        """The digest by which the new version is known again."""
        return digest(self.template)

    def is_new(self, template: JsonObject) -> bool:
        """Whether the stable set's own template is the new version's."""
        return self._is(template, self.template)

    def is_promoted(self, template: JsonObject) -> bool:
        """Whether it is that of the new version as it is to stay."""
        return self._is(template, self.template if self.inside is None else self.inside.synced)

    def _is(self, template: JsonObject, wanted: JsonObject) -> bool:
        return images_of(template) == images_of(wanted) if self.inside is None else digest(template) == digest(wanted)


class Inside(msgspec.Struct, frozen=True):
    """A source's workload that takes its new version inside.

    `body` is what is applied while it is tried, with the copies that it then reads; `synced` the template that a sync would leave.
    """

    body: JsonObject
    synced: JsonObject


class Ground(msgspec.Struct, frozen=True):
    """What was found out before the first write."""

    cluster: Cluster
    client: ApiClient
    namespace: str
    stable: JsonObject
    plan: Plan
    affected: bool
