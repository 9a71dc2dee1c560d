"""The manifests that are shipped, against what manager and delegate go by."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from delegate.foundation.settings.declarations import declared_in
from delegate.foundation.settings.programs import DelegateSettings
from delegate.manager.accounts import AUDIENCE
from tests.tools import require_tool

MANIFESTS = Path(__file__).parents[2] / "manifests"


def rendered(name: str) -> list[dict[str, Any]]:
    kubectl = require_tool("kubectl")
    ended = subprocess.run([kubectl, "kustomize", str(MANIFESTS / name)], capture_output=True, text=True, timeout=50, check=False)
    assert ended.returncode == 0, ended.stderr
    return [each for each in yaml.safe_load_all(ended.stdout) if each]


def pod_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def environment_of(pod: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}


@pytest.mark.parametrize(("name", "secret"), [("base", True), ("service-account", False), ("cert-manager", True)])
def test_a_pod_has_a_token_that_does_not_end_with_its_secret(name: str, secret: bool) -> None:
    """Projected for the manager's audience, where the variable says that it is; with a Secret beside it, or without."""
    pod = pod_of(rendered(name))
    variables = environment_of(pod)
    (volume,) = [each for each in pod["volumes"] if each["name"] == "token"]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "token"]
    (account,) = [each["serviceAccountToken"] for each in volume["projected"]["sources"] if "serviceAccountToken" in each]

    assert account["audience"] == AUDIENCE
    assert variables["DELEGATE_SERVICE_ACCOUNT_TOKEN_FILE"] == f"{mount['mountPath']}/{account['path']}"
    assert any("secret" in each for each in volume["projected"]["sources"]) is secret
    assert ("DELEGATE_TOKEN_FILE" in variables) is secret
    known = {each.variable for each in declared_in(DelegateSettings).values()}
    assert {each.removesuffix("_FILE") for each in variables if each.startswith("DELEGATE_")} <= known | {
        each.removesuffix("_FILE") for each in known
    }


def test_cert_manager_s_pair_is_where_the_delegate_looks() -> None:
    """The Secret that the Certificate fills is mounted there, for reading alone."""
    objects = rendered("cert-manager")
    (certificate,) = [each for each in objects if each["kind"] == "Certificate"]
    pod = pod_of(objects)
    (volume,) = [each for each in pod["volumes"] if each["name"] == "certificate"]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "certificate"]

    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    assert environment_of(pod)["DELEGATE_CERT_DIR"] == mount["mountPath"]
    assert mount["readOnly"]
    assert certificate["metadata"]["namespace"] == "delegate"
