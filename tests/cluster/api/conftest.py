"""Plain HTTP clients of the server under test, and a place to work in."""

import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import Server
from tests.simulator.clients import Client


def client_for(kubeconfig: Path) -> Client:
    """A client with the address, trust and token of a kubeconfig's only context."""
    config: Any = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = cluster.get("certificate-authority-data")
    trust = ssl.create_default_context(cadata=base64.b64decode(authority).decode()) if authority else None
    return Client(cluster["server"], user["token"], trust)


@pytest.fixture
async def admin(server: Server) -> AsyncIterator[Client]:
    """Who may do everything."""
    async with client_for(server.kubeconfig) as made:
        yield made


@pytest.fixture
async def powerless(server: Server) -> AsyncIterator[Client]:
    """The user `limited` of the group `devs`, who has no rights but those that a test grants."""
    async with client_for(server.limited_kubeconfig) as made:
        yield made


@pytest.fixture
async def place(admin: Client) -> AsyncIterator[str]:
    """The path of a fresh namespace, `/namespaces/<name>`, that is there as soon as its default account is."""
    made = await admin.post("/api/v1/namespaces", {"metadata": {"generateName": "api-"}})
    name = made.body["metadata"]["name"]
    await admin.until(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda body: body["kind"] == "ServiceAccount")
    await admin.until(f"/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt", lambda body: body["kind"] == "ConfigMap")
    yield f"/namespaces/{name}"
    await admin.delete(f"/api/v1/namespaces/{name}")
