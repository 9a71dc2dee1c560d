"""`lookup` of charts: helm asks what it takes for an API server, and nothing but objects and lists is read for it."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from delegate.engine.sources.errors import RenderFailedError
from delegate.engine.sources.helm.lookups import Window, is_readable
from delegate.engine.sources.jails.running import RenderLimits, open_jail, run_jailed
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.renders import Rendered
from delegate.engine.sources.targets import Capabilities, Looked, ServedKind, Target
from delegate.foundation.errors import DelegateError
from delegate.model.resources import JsonObject
from delegate.model.sources import HelmOptions, HelmParameter
from tests.sources.charts import chart
from tests.sources.repositories import Repository, render, source_of
from tests.tools import require_tool

INTERPRETER = Path(sys.executable).resolve()
REASONS = {403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}
SECRET = "/api/v1/namespaces/shop/secrets/keys"
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: seen}
data:
  found: {{ (lookup "v1" "Secret" .Release.Namespace "keys").data | toJson | quote }}
  all: {{ len (lookup "v1" "Secret" "" "").items | quote }}
  version: {{ .Capabilities.KubeVersion.Version }}
  has: {{ .Capabilities.APIVersions.Has "shop.example/v1/Cart" | quote }}
"""


class FakeServer:
    """Answers as an API server does, and keeps in mind what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.objects: dict[str, JsonObject] = {}
        self.faults: dict[str, int] = {}

    async def look(self, path: str) -> Looked:
        self.asked.append(path)
        body = self.objects.get(path)
        status = self.faults.get(path, 200 if body is not None else 404)
        if status != 200:
            body = {"kind": "Status", "status": "Failure", "code": status, "reason": REASONS.get(status)}
            body |= {"apiVersion": "v1", "message": f"{path}: {status}"}
        return Looked(status, json.dumps(body).encode())

    def put(self, path: str, **fields: object) -> None:
        self.objects[path] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "shop"}, **fields}

    async def capabilities(self) -> Capabilities:
        kinds = (ServedKind("v1", "Secret", "secrets", True), ServedKind("shop.example/v1", "Cart", "carts", True))
        return Capabilities("v1.33.0", kinds)

    @property
    def target(self) -> Target:
        return Target("shop", "shop", self.capabilities, self.look)


@pytest.fixture
def server() -> FakeServer:
    require_tool("helm")
    made = FakeServer()
    made.objects["/api/v1/secrets"] = {"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": []}
    return made


async def render_with(
    server: FakeServer, sources: Sources, repository: Repository, template: str = TEMPLATE, helm: HelmOptions | None = None
) -> Rendered:
    repository.commit(chart(files={"templates/config.yaml": template}, directory="chart"))
    source = source_of(repository.url, "main", "chart")
    return await render(sources, source if helm is None else type(source)(source.repo_url, "main", "chart", helm=helm), server.target)


async def test_what_the_cluster_holds_is_found(server: FakeServer, sources: Sources, repository: Repository) -> None:
    """An object and a list; version and kinds are those of the target's capabilities."""
    server.put(SECRET, data={"password": "cGFzcw=="})
    server.objects["/api/v1/secrets"]["items"] = [server.objects[SECRET]]

    rendered = await render_with(server, sources, repository)

    assert rendered.manifests[0].body["data"] == {
        "found": '{"password":"cGFzcw=="}',
        "all": "1",
        "version": "v1.33.0",
        "has": "true",
    }
    assert not [notice for notice in rendered.notices if "lookup" in notice]


async def test_nothing_is_found_as_nothing(server: FakeServer, sources: Sources, repository: Repository) -> None:
    """As in helm: an absent object is an empty one."""
    rendered = await render_with(server, sources, repository)

    assert rendered.manifests[0].body["data"]["found"] == "null"


async def test_what_may_not_be_read_is_said(server: FakeServer, sources: Sources, repository: Repository) -> None:
    """In the server's words, with the template that asked."""
    server.faults[SECRET] = 403

    with pytest.raises(RenderFailedError, match=r"/secrets/keys: 403") as caught:
        await render_with(server, sources, repository)

    assert caught.value.file == "chart/templates/config.yaml"


async def test_a_password_is_drawn_once(server: FakeServer, sources: Sources, repository: Repository) -> None:
    """The usual way to keep a generated password: with it in the cluster, every render is the same."""
    template = (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\ndata:\n"
        '  {{- $old := lookup "v1" "Secret" .Release.Namespace "keys" }}\n'
        "  password: {{ if $old }}{{ $old.data.password }}{{ else }}{{ randAlphaNum 20 | b64enc }}{{ end }}\n"
    )
    first = await render_with(server, sources, repository, template)
    assert [notice for notice in first.notices if "Secret keys: data.password" in notice]

    server.put(SECRET, data=first.manifests[0].body["data"])
    again = await render_with(server, sources, repository, template)

    assert again.manifests[0].body == first.manifests[0].body
    assert not [notice for notice in again.notices if "every render" in notice]


async def test_a_render_is_kept_while_the_answers_are_the_same(
    server: FakeServer, sources: Sources, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The objects are asked for again, and helm runs only when one has changed."""
    server.put(SECRET, data={"a": "MQ=="})
    first = await render_with(server, sources, repository)
    server.asked.clear()

    assert (await render_with(server, sources, repository)).content == first.content
    assert sorted(server.asked) == sorted([SECRET, "/api/v1/secrets"]), "neither discovery nor a render"

    server.put(SECRET, data={"a": "Mg=="})
    changed = await render_with(server, sources, repository)
    assert changed.manifests[0].body["data"]["found"] == '{"a":"Mg=="}'
    assert changed.content != first.content


async def test_values_that_are_templates_ask_too(server: FakeServer, sources: Sources, repository: Repository) -> None:
    """`tpl` of a value."""
    server.put(SECRET, data={"a": "MQ=="})
    template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: seen}\ndata:\n  found: {{ tpl .Values.text . | quote }}\n"
    options = HelmOptions(values='text: \'{{ (lookup "v1" "Secret" .Release.Namespace "keys").data.a }}\'\n')

    rendered = await render_with(server, sources, repository, template, options)

    assert rendered.manifests[0].body["data"]["found"] == "MQ=="


async def test_without_a_cluster_nothing_is_found(server: FakeServer, sources: Sources, repository: Repository) -> None:
    """`delegate render` has none, and says that the chart asked."""
    template = TEMPLATE.replace('  all: {{ len (lookup "v1" "Secret" "" "").items | quote }}\n', "")
    repository.commit(chart(files={"templates/config.yaml": template}, directory="chart"))

    rendered = await render(sources, source_of(repository.url, "main", "chart"), Target("shop", "shop", server.capabilities))

    assert rendered.manifests[0].body["data"]["found"] == "null"
    assert any("`lookup`" in notice for notice in rendered.notices)
    assert not server.asked


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("GET /api/v1/namespaces/shop/secrets/keys HTTP/1.1", True),
        ("GET /apis/apps/v1/namespaces/shop/deployments?limit=500 HTTP/1.1", True),
        ("GET /api/v1/namespaces HTTP/1.1", True),
        ("POST /api/v1/namespaces/shop/secrets HTTP/1.1", False),
        ("DELETE /api/v1/namespaces/shop HTTP/1.1", False),
        ("GET /api/v1/namespaces/shop/secrets?watch=true HTTP/1.1", False),
        ("GET /api/v1/watch/secrets HTTP/1.1", False),
        ("GET /api/v1/namespaces/shop/pods/web/exec?command=sh HTTP/1.1", False),
        ("GET /api/v1/namespaces/shop/services/web/proxy/admin HTTP/1.1", False),
        ("GET /api/v1/nodes/one/proxy HTTP/1.1", False),
        ("GET /logs/secret HTTP/1.1", False),
        ("GET /api/v1/namespaces/../../logs HTTP/1.1", False),
        ("GET http://elsewhere/api/v1/secrets HTTP/1.1", False),
        ("", False),
    ],
)
async def test_what_is_passed_on(line: str, read: bool) -> None:
    """Reads of objects and lists, without their query; everything else is refused here."""
    server = FakeServer()
    window = Window(
        server.look, Capabilities("v1.33.0", (ServedKind("v1", "Secret", "secrets", True), ServedKind("apps/v1", "Job", "jobs", True)))
    )
    await window.answer(f"GET {'/apis/apps/v1' if 'apps' in line else '/api/v1'} HTTP/1.1")
    answer = await window.answer(line)

    assert (len(server.asked) == 1) == read
    assert (answer.status == 405) != read
    assert all("?" not in path and is_readable(path) for path in server.asked)


async def test_questions_have_an_end() -> None:
    """A chart that asks in a loop is told so."""
    server = FakeServer()
    window = Window(server.look, await server.capabilities())
    answers = []
    for _ in range(501):
        await window.answer("GET /api/v1 HTTP/1.1")
        answers.append((await window.answer("GET /api/v1/namespaces HTTP/1.1")).status)

    assert answers == [404] * 500 + [403]


PROBE = """\
import errno, os, socket
target = ("192.0.2.1", 4444)
with socket.socket() as one:
    one.connect(target)
    os.write(one.fileno(), b"hello\\n")
    print(os.read(one.fileno(), 100).decode().strip())
for family, kind in ((socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_STREAM)):
    try:
        socket.socket(family, kind)
        print("open")
    except OSError as error:
        print(errno.errorcode[error.errno])
with socket.socket() as other:
    for call in (lambda: other.bind(("127.0.0.1", 0)), lambda: other.listen(), lambda: other.sendto(b"x", target)):
        try:
            call()
            print("done")
        except OSError as error:
            print(errno.errorcode[error.errno])
"""


async def test_every_connection_ends_at_the_hatch(tmp_path: Path) -> None:
    """Whatever address a program connects to, it talks to us; other kinds of sockets there are none."""
    told: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        told.append(line)
        if line:
            writer.write(b"here\n")
            await writer.drain()

    async with open_jail(tmp_path, RenderLimits(seconds=30)) as jail:
        (jail.inside / "probe.py").write_text(PROBE)
        completed = await run_jailed(
            INTERPRETER,
            ("-I", "-S", str(jail.inside / "probe.py")),
            jail,
            timeout=30,
            serve=serve,
            reads=(sys.base_prefix,),
        )

    assert completed.stderr == ""
    assert completed.stdout.decode().split() == ["here", "EAFNOSUPPORT", "EAFNOSUPPORT", "EAFNOSUPPORT", "EPERM", "EPERM", "EPERM"]
    assert b"hello\n" in told


async def test_without_a_hatch_there_is_no_socket(tmp_path: Path) -> None:
    """As before: not one."""
    async with open_jail(tmp_path, RenderLimits(seconds=30)) as jail:
        (jail.inside / "probe.py").write_text("import socket\nsocket.socket()\n")
        completed = await run_jailed(INTERPRETER, ("-I", "-S", str(jail.inside / "probe.py")), jail, timeout=30, reads=(sys.base_prefix,))

    assert "PermissionError" in completed.stderr


async def test_a_fault_of_the_server_is_no_crash(server: FakeServer, sources: Sources, repository: Repository) -> None:
    """A server that is away fails the render with its words."""
    server.faults[SECRET] = 503

    with pytest.raises(DelegateError) as caught:
        await render_with(server, sources, repository, TEMPLATE, HelmOptions(parameters=(HelmParameter("x", "1"),)))

    assert isinstance(caught.value, RenderFailedError)


async def test_what_helm_would_check_is_not_asked(server: FakeServer, sources: Sources, repository: Repository) -> None:
    """Kinds that nobody serves yet, hooks, definitions, objects that exist: all is rendered, and only the lookup is read."""
    server.put(SECRET, data={"a": "MQ=="})
    server.objects["/api/v1/namespaces/shop/secrets/made"] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "made"}}
    files = {
        "templates/config.yaml": TEMPLATE,
        "templates/made.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: made}\n",
        "templates/custom.yaml": "apiVersion: other.example/v1\nkind: Thing\nmetadata: {name: thing}\n---\n"
        "apiVersion: more.example/v1\nkind: Proxy\nmetadata: {name: proxy}\n",
        "templates/hook.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n",
        "crds/crd.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.other.example}\n",
    }
    repository.commit(chart(files=files, directory="chart"))

    rendered = await render(sources, source_of(repository.url, "main", "chart"), server.target)

    assert sorted(manifest.name for manifest in rendered.manifests) == ["hook", "made", "proxy", "seen", "thing", "things.other.example"]
    assert set(server.asked) == {SECRET, "/api/v1/secrets"}
    assert not [notice for notice in rendered.notices if "CRD" in notice]
