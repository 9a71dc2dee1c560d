"""The Job of a smoke test, and what a smoke test may be."""

from typing import Any

import pytest

from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import CanarySpecError
from delegate.model.rollouts.smoke import SmokeTest, failure_of, smoke_job, smoke_job_name
from delegate.model.rollouts.specs import read_canary

TEMPLATE: JsonObject = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"prometheus.io/scrape": "true"}},
    "spec": {
        "serviceAccountName": "web",
        "volumes": [{"name": "settings", "configMap": {"name": "settings-1"}}],
        "initContainers": [{"name": "migrate", "image": "web:2"}],
        "terminationGracePeriodSeconds": 600,
        "containers": [
            {
                "name": "main",
                "image": "web:2",
                "args": ["serve"],
                "ports": [{"containerPort": 80}],
                "readinessProbe": {"httpGet": {"port": 80}},
                "lifecycle": {"preStop": {}},
                "env": [{"name": "POOL", "value": "4"}],
                "volumeMounts": [{"name": "settings", "mountPath": "/etc/web"}],
            },
            {"name": "proxy", "image": "proxy:1"},
        ],
    },
}


OWNER: JsonObject = {"metadata": {"name": "delegate.canary.deployment.web", "uid": "1234"}}


def job(**fields: Any) -> JsonObject:
    return smoke_job(TEMPLATE, SmokeTest(**fields), name="smoke", namespace="shop", application="checkout", owner=OWNER)


def test_it_reads_what_the_new_version_reads_and_keeps_no_server_running() -> None:
    """Once, without labels that anything selects by, and with an end of its own."""
    made = job(command=("/bin/check",))["spec"]

    pod = made["template"]
    (container,) = pod["spec"]["containers"]
    assert (container["image"], container["command"], container["env"]) == ("web:2", ["/bin/check"], [{"name": "POOL", "value": "4"}])
    assert container["volumeMounts"] == [{"name": "settings", "mountPath": "/etc/web"}]
    assert not container.keys() & {"args", "ports", "readinessProbe", "lifecycle"}
    assert (pod["spec"]["serviceAccountName"], pod["spec"]["restartPolicy"], made["backoffLimit"]) == ("web", "Never", 0)
    assert not pod["spec"].keys() & {"initContainers", "terminationGracePeriodSeconds"}
    assert "app" not in pod["metadata"]["labels"]
    assert made["activeDeadlineSeconds"] == 150


def test_it_stays_until_somebody_has_read_it() -> None:
    """No time to live takes its outcome away; the journal's end is its own."""
    made = job(command=("/bin/check",))

    assert "ttlSecondsAfterFinished" not in made["spec"]
    assert [each["name"] for each in made["metadata"]["ownerReferences"]] == ["delegate.canary.deployment.web"]


def test_another_container_and_another_image() -> None:
    """By name; an image of its own brings its own command."""
    (container,) = job(image="check:1", container="proxy")["spec"]["template"]["spec"]["containers"]

    assert (container["name"], container["image"]) == ("proxy", "check:1")
    assert "command" not in container


def test_a_claim_that_only_pods_of_a_set_have_is_empty() -> None:
    """The test must not touch theirs."""
    container = {
        **TEMPLATE["spec"]["containers"][0],
        "volumeMounts": [{"name": each, "mountPath": f"/{each}"} for each in ("settings", "data")],
    }
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "containers": [container]}}

    pod = smoke_job(template, SmokeTest(command=("/c",)), name="smoke", namespace="shop", application="checkout", owner=OWNER)

    assert pod["spec"]["template"]["spec"]["volumes"] == [*TEMPLATE["spec"]["volumes"], {"name": "data", "emptyDir": {}}]


def test_a_name_fits_whatever_the_workload_is_called() -> None:
    """And tells releases apart."""
    names = {smoke_job_name("w" * 70, release) for release in ("a" * 64, "b" * 64)}

    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)


def test_a_failure_has_the_words_of_the_pod() -> None:
    """What it printed last; else the Job's own reason."""
    ended = {"state": {"terminated": {"exitCode": 7, "message": "GET /healthz: 500\n"}}}
    failed = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"}]}}

    assert failure_of(failed, [{"status": {"containerStatuses": [ended]}}]) == "it ended with 7: GET /healthz: 500"
    assert failure_of(failed, []) == "DeadlineExceeded: too long"


@pytest.mark.parametrize(
    ("test", "routing", "words"),
    [
        ({}, None, "smokeTest.command: a smoke test is a command"),
        ({"command": ["x"], "verify": ["health"]}, {"nginx": {"ingress": "web"}}, "smokeTest.command: a smoke test is a command"),
        ({"command": ["x"], "timeout": "soon"}, None, "smokeTest.timeout:"),
        ({"verify": ["other"]}, {"nginx": {"ingress": "web"}}, "smokeTest.verify: it names the check 'other'"),
        ({"verify": ["health"]}, None, "smokeTest.verify: without a router the new pods get load as soon as they are ready"),
    ],
)
def test_what_tests_nothing_is_refused(test: JsonObject, routing: JsonObject | None, words: str) -> None:
    """With the field and what to do."""
    check = {"name": "health", "type": "http", "url": "http://web-canary/healthz", "unit": "count", "threshold": "== 200 count"}
    spec = {"workload": {"name": "web"}, "images": {"main": "web:2"}, "smokeTest": test, "verification": [check]}

    with pytest.raises(CanarySpecError) as caught:
        read_canary(spec if routing is None else spec | {"routing": routing})

    assert words in str(caught.value)
    assert caught.value.hint


def test_a_container_that_is_not_there() -> None:
    """No Job is made for it."""
    with pytest.raises(CanarySpecError, match="the new version has no container 'nobody'"):
        job(command=("x",), container="nobody")
