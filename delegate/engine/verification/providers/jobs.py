"""A Kubernetes Job as a check: 1 where it completes, 0 where it fails; one whose image can't be pulled says nothing.

The query is a Job manifest (YAML or JSON), which is created under a name of its own, waited for and deleted; or the name of a Job that
somebody else has made, which is only waited for. The reading's timeout is the time that it may take.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable

import yaml

from delegate.engine.clusters.client import ApiClient
from delegate.engine.verification.answers import Answer, Query, Series
from delegate.engine.verification.errors import ProviderConfigurationError, ProviderUnavailableError, UnreadableAnswerError
from delegate.engine.verification.providers.tidying import tidy
from delegate.model.resource_types import JOBS, PODS
from delegate.model.resources import JsonObject

_LABEL = "delegate.gitops/verification"
_UNSTARTABLE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")
_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.2, 2.0
_KEPT_SECONDS = 600
_GRACE_SECONDS = 30
"""Later than we give up: a Job that was ended for its time would look like one that failed."""
_LONGEST_NAME = 50
_LONGEST_MANIFEST = 256 * 1024


OpenClient = Callable[[], Awaitable[ApiClient]]
"""The client of the cluster that is verified, opened when it is needed; raises ClusterError."""


class JobProvider:
    """Runs or watches Jobs in one namespace of the cluster that is verified."""

    name = "job"
    grain = 0.0

    def __init__(self, open_client: OpenClient, namespace: str) -> None:
        self._open_client = open_client
        self._namespace = namespace

    async def read(self, query: Query, *, timeout: float) -> Answer:
        """Raises VerificationError, or ClusterError where the cluster refuses."""
        manifest = _manifest(query.text)
        try:
            async with asyncio.timeout(timeout):
                client = await self._open_client()
                if manifest is None:
                    job = await self._wait(client, query.text.strip() or query.parameters.get("name", ""))
                else:
                    job = await self._run(client, manifest, timeout)
        except TimeoutError as error:
            words = f"the Job has not ended within {timeout:g} s"
            raise ProviderUnavailableError(words, hint="raise the check's timeout, or make the Job quicker") from error
        return _answer(job, query.window.end)

    async def close(self) -> None:
        """The client is somebody else's."""

    async def _run(self, client: ApiClient, manifest: JsonObject, timeout: float) -> JsonObject:
        made = await client.create(JOBS, _prepared(manifest, self._namespace, timeout))
        name, uid = str(made["metadata"]["name"]), str(made["metadata"]["uid"])
        try:
            return await self._wait(client, name)
        finally:
            await tidy(client.delete(JOBS, self._namespace, name, uid=uid))

    async def _wait(self, client: ApiClient, name: str) -> JsonObject:
        """The Job when it has ended. Raises UnreadableAnswerError where none of its pods can start."""
        if not name:
            raise ProviderConfigurationError("the check names no Job", hint="give a manifest or a Job's name as its query")
        wait = _FIRST_POLL_SECONDS
        while True:
            job = await client.get(JOBS, self._namespace, name)
            if _ended(job) is not None:
                return job
            await self._raise_unstartable(client, name)
            await asyncio.sleep(wait)
            wait = min(_LONGEST_POLL_SECONDS, wait * 1.5)

    async def _raise_unstartable(self, client: ApiClient, name: str) -> None:
        pods = await client.list(PODS, self._namespace, labels=f"job-name={name}")
        for pod in pods.items:
            status = pod.get("status") or {}
            for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
                waiting = (container.get("state") or {}).get("waiting") or {}
                if waiting.get("reason") in _UNSTARTABLE:
                    words = f"the Job {self._namespace}/{name} can't start: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
                    hint = "check the Job's image and pull secret; this says nothing about the release"
                    raise UnreadableAnswerError(words, hint=hint, object=f"batch/Job {self._namespace}/{name}")


def _manifest(text: str) -> JsonObject | None:
    """The Job in a query; None where it is a name. Raises ProviderConfigurationError."""
    if "\n" not in text.strip() and ":" not in text:
        return None
    if len(text) > _LONGEST_MANIFEST:
        raise ProviderConfigurationError(f"the Job is larger than {_LONGEST_MANIFEST} characters")
    try:
        body = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ProviderConfigurationError("the query is no YAML", hint="give a Job manifest, or the name of a Job") from error
    if (
        not isinstance(body, dict)
        or body.get("kind") != "Job"
        or body.get("apiVersion") != "batch/v1"
        or not isinstance(body.get("spec"), dict)
    ):
        raise ProviderConfigurationError("the query is no Job of batch/v1", hint="give a Job manifest, or the name of a Job")
    return body


def _prepared(manifest: JsonObject, namespace: str, timeout: float) -> JsonObject:
    """Under a name of its own, with an end of its own in case that nobody deletes it."""
    metadata = dict(manifest.get("metadata") or {})
    if metadata.get("namespace", namespace) != namespace:
        words = f"the Job names the namespace {metadata['namespace']!r}, and {namespace!r} is verified"
        raise ProviderConfigurationError(words, hint="leave metadata.namespace out")
    stem = str(metadata.pop("name", "") or metadata.pop("generateName", "") or "verification").rstrip("-")[:_LONGEST_NAME]
    metadata |= {"namespace": namespace, "generateName": f"{stem}-"}
    metadata["labels"] = {**(metadata.get("labels") or {}), _LABEL: "true"}
    limits = {"activeDeadlineSeconds": math.ceil(timeout) + _GRACE_SECONDS, "ttlSecondsAfterFinished": _KEPT_SECONDS}
    return {**manifest, "metadata": metadata, "spec": {**limits, **manifest["spec"]}}


def _ended(job: JsonObject) -> JsonObject | None:
    """The condition that ended it."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") in ("Complete", "Failed") and each.get("status") == "True"), None)


def _answer(job: JsonObject, at: float) -> Answer:
    condition = _ended(job) or {}
    labels = {"job": str(job["metadata"]["name"])}
    if condition.get("type") == "Complete":
        return Answer((Series(((at, 1.0),), labels),))
    return Answer((Series(((at, 0.0),), labels | {"reason": str(condition.get("reason") or "Failed")}),))
