"""A machine's own policy holds for every object of a set, whatever the document says of its destination."""

import asyncio

import msgspec
import pytest

from delegate.engine.tasks.contexts import AttemptContext
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome
from delegate.model.tasks import read_task
from delegate.model.trust import TrustPolicy
from tests.cluster.syncing import Syncer, settings_map

ROLE: JsonObject = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"}, "rules": []}


@pytest.mark.parametrize(
    ("stranger", "words"),
    [
        (settings_map("beside", namespace="default"), "in namespace default"),
        (ROLE, "which is in no namespace"),
        ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}, "in namespace elsewhere"),
    ],
    ids=["another namespace", "no namespace", "a namespace itself"],
)
async def test_one_object_out_of_bounds_stops_the_whole_set(syncer: Syncer, stranger: JsonObject, words: str) -> None:
    """Nothing is written, and it is said which object it was."""
    syncer.write([settings_map("mine"), stranger])
    policy = msgspec.convert({"allow": {"namespaces": [syncer.namespace]}}, TrustPolicy)
    source = {"source": {"path": str(syncer.directory)}}
    document = {"kind": "sync", "application": "shop", "destination": {"namespace": syncer.namespace}, "spec": source}
    context = AttemptContext(
        task_id="t", attempt_id="t-1", deadline=asyncio.get_running_loop().time() + 30, check_namespace=policy.check_namespace
    )

    result = await syncer.engine.run(read_task(document), context)

    assert result.outcome in (Outcome.REFUSED, Outcome.FAILED)
    assert result.error is not None
    assert (result.error.code, words in result.error.message) == ("policy.not_allowed", True)
    assert result.requests.writes == 0
