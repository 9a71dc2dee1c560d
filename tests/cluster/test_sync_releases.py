"""Releases: what an Application was, kept beside it."""

import pytest

from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.errors import UnknownReleaseError
from delegate.engine.records.releases import ReleaseStore
from delegate.model.errors import CorruptReleaseError
from delegate.model.releases import ReleaseOutcome, release_name
from delegate.model.resource_types import SECRETS
from delegate.model.results import Outcome
from tests.cluster.syncing import Syncer, deployment, settings_map


@pytest.fixture
def releases(cluster: Cluster, syncer: Syncer) -> ReleaseStore:
    return ReleaseStore(cluster.client, syncer.application, syncer.namespace)


async def test_a_sync_that_changes_something_is_a_release(syncer: Syncer, releases: ReleaseStore) -> None:
    """With all of its objects as they were applied, and how it ended."""
    syncer.write([settings_map(), deployment()])
    result = await syncer.sync()

    (release,) = await releases.known()
    loaded, manifests = await releases.load(release.number)

    assert result.release == 1
    assert (release.number, release.outcome, release.objects, release.plan) == (1, ReleaseOutcome.HEALTHY, 2, result.plan_hash)
    assert (release.revision, release.summary.created) == (result.revision, 2)
    assert loaded == release
    assert {manifest.key.name for manifest in manifests} == {"settings", "web"}
    assert all(manifest.origin.file == "set.yaml" for manifest in manifests)


async def test_an_unchanged_sync_is_none(syncer: Syncer, releases: ReleaseStore) -> None:
    """Nothing is written for it."""
    syncer.write([settings_map()])
    await syncer.sync()
    again = await syncer.sync()
    assert (len(await releases.known()), again.requests.writes, again.release) == (1, 0, 0)


async def test_a_release_that_failed_says_why(syncer: Syncer, releases: ReleaseStore) -> None:
    """The one before it stays what it was."""
    syncer.write([deployment()])
    await syncer.sync()
    syncer.write([deployment(image="registry.example/broken:broken")])
    failed = await syncer.sync(failFastAfter="1s")
    newest, before = await releases.known()
    assert failed.outcome is Outcome.FAILED
    assert (newest.outcome, before.outcome) == (ReleaseOutcome.FAILED, ReleaseOutcome.HEALTHY)
    assert newest.message


async def test_a_sync_that_does_not_wait_is_applied_and_no_more(syncer: Syncer, releases: ReleaseStore) -> None:
    """Nobody has seen it healthy."""
    syncer.write([deployment()])
    await syncer.sync(wait=False)
    assert [release.outcome for release in await releases.known()] == [ReleaseOutcome.APPLIED]


async def test_history_has_an_end(syncer: Syncer, releases: ReleaseStore) -> None:
    """The oldest go; the last good one stays however long ago it was."""
    syncer.spec = {"revisionHistoryLimit": 2}
    syncer.write([settings_map(data={"level": "0"})])
    await syncer.sync()
    for number in range(1, 5):
        syncer.write([settings_map(data={"level": str(number)})])
        await syncer.sync(wait=False)
    assert [release.number for release in await releases.known()] == [5, 4, 1]


async def test_a_large_set_is_kept_in_pieces(syncer: Syncer, releases: ReleaseStore, cluster: Cluster) -> None:
    """Each fits a Secret; a piece that was tampered with is found out."""
    import random

    noise = random.Random(1)
    maps = [settings_map(f"map-{number}", {"noise": noise.randbytes(150_000).hex()}) for number in range(6)]
    syncer.write(maps)
    result = await syncer.sync()
    assert result.outcome is Outcome.SUCCEEDED, result

    (release,) = await releases.known()
    _, manifests = await releases.load(1)
    assert release.parts > 1
    assert len(manifests) == 6

    await cluster.client.patch(SECRETS, syncer.namespace, release_name("shop", 1, 1), {"data": {"set": "AAAA"}})
    with pytest.raises(CorruptReleaseError):
        await releases.load(1)


async def test_a_release_that_there_is_not(releases: ReleaseStore) -> None:
    """Said with where it was looked for."""
    with pytest.raises(UnknownReleaseError, match="has no release 7"):
        await releases.load(7)
