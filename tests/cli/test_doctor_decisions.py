"""What the doctor decides by itself: exit codes, rules to add, and whether two versions get on."""

import asyncio

import pytest

from delegate import __version__
from delegate.engine.clusters.access import Access
from delegate.operations.doctor.checking import Check, run_checks
from delegate.operations.doctor.findings import Area, Finding, Status, exit_code
from delegate.operations.doctor.link import judge_versions
from delegate.operations.doctor.permissions import describe_missing


def found(area: Area, status: Status) -> Finding:
    return Finding(check="c", area=area, status=status, what="w")


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], 0),
        ([found(Area.NETWORK, Status.WARNING), found(Area.CLUSTER, Status.SKIPPED)], 0),
        ([found(Area.CLUSTER, Status.FAILED), found(Area.NETWORK, Status.FAILED)], 10),
        ([found(Area.TOOLS, Status.FAILED), found(Area.SETTINGS, Status.FAILED)], 2),
        ([found(Area.MACHINE, Status.FAILED)], 15),
        ([found(Area.STORAGE, Status.FAILED), found(Area.IDENTITY, Status.FAILED)], 11),
    ],
)
def test_the_first_class_that_failed_gives_the_code(findings: list[Finding], code: int) -> None:
    """Warnings change nothing; nearer causes come first."""
    assert exit_code(findings) == code


def test_missing_verbs_of_one_resource_are_one_rule() -> None:
    """By namespace and resource, with every Application that needs it; `apply` stands in no rule."""
    needs = {
        Access("patch", "apps", "deployments", "shop"): {"checkout", "cart"},
        Access("get", "apps", "deployments", "shop"): {"checkout"},
        Access("create", "", "namespaces"): {"cart"},
    }

    cluster_wide, in_namespace = describe_missing(list(needs), needs, "system:serviceaccount:delegate:delegate", "edge")

    assert "add to a Role in namespace shop that is bound to 'system:serviceaccount:delegate:delegate'" in in_namespace.hint
    assert '{apiGroups: ["apps"], resources: ["deployments"], verbs: [get, patch]}' in in_namespace.hint
    assert "cart, checkout" in in_namespace.what
    assert "add to a ClusterRole that" in cluster_wide.hint
    assert "no verb `apply`" not in cluster_wide.hint


@pytest.mark.parametrize(("ahead", "status"), [(0, Status.OK), (1, Status.OK), (2, Status.OK), (3, Status.WARNING)])
def test_managers_serve_two_minor_versions_back(ahead: int, status: Status) -> None:
    """As the skew policy says."""
    major, minor, *_ = __version__.split(".")

    assert judge_versions(f"{major}.{int(minor) + ahead}.7", "https://m.example").status is status


def test_a_version_of_nobody_is_not_judged() -> None:
    """Neither an old manager that says none nor another product."""
    assert judge_versions("", "x").status is Status.SKIPPED
    assert judge_versions("latest", "x").status is Status.SKIPPED


async def test_a_check_that_hangs_or_breaks_stops_no_other() -> None:
    """Each ends in a finding, within its deadline, in the order that was asked for."""

    async def hang() -> list[Finding]:
        await asyncio.Event().wait()
        return []

    async def break_down() -> list[Finding]:
        raise RuntimeError("a secret is in here")

    async def work() -> list[Finding]:
        return [found(Area.TOOLS, Status.OK)]

    told: list[str] = []
    checks = [
        Check("hangs", Area.NETWORK, hang, "there", 0.05),
        Check("breaks", Area.CLUSTER, break_down),
        Check("works", Area.TOOLS, work),
    ]
    results = await run_checks(checks, lambda check, findings: told.append(check.name))

    assert [each.status for each in results] == [Status.FAILED, Status.FAILED, Status.OK]
    assert results[0].what == "no end within 0.05 s"
    assert results[0].where == "there"
    assert "a secret" not in results[1].what
    assert sorted(told) == ["breaks", "hangs", "works"]
