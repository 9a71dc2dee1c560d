"""A server that speaks as a forge does, in the documented forms: requests are checked, answers and errors are as each kind writes them.

Only what is asked for here is served; everything else is a 404, as it would be there.
"""

import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from delegate.engine.forges.places import ForgeKind, KnownForge

TOKEN = "f0rge-t0ken-value"
_PREFIXES = {
    ForgeKind.GITLAB: "/api/v4/projects/shop%2Fsub%2Fconfig",
    ForgeKind.GITHUB: "/api/v3/repos/shop/config",
    ForgeKind.GITEE: "/api/v5/repos/shop/config",
    ForgeKind.GITEA: "/api/v1/repos/shop/config",
    ForgeKind.BITBUCKET: "/2.0/repositories/shop/config",
    ForgeKind.BITBUCKET_SERVER: "/rest/api/1.0/projects/SHOP/repos/config",
}
_REPOSITORIES = {ForgeKind.GITLAB: "shop/sub/config.git", ForgeKind.BITBUCKET_SERVER: "scm/SHOP/config.git"}
_AUTHORIZATION = {ForgeKind.GITEA: f"token {TOKEN}"}


class ForgeServer:
    """One repository at a forge of a kind. `answers` are given first, one a request; `pulls` are what was made."""

    def __init__(self, kind: ForgeKind) -> None:
        self.kind = kind
        self.pulls: list[dict[str, Any]] = []
        self.comments: list[tuple[int, str]] = []
        self.statuses: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[web.Response | None] = []
        self.hides_pulls = 0
        self.address = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["ForgeServer"]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.address = f"127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://{self.address}/{_REPOSITORIES.get(self.kind, 'shop/config.git')}"

    @property
    def known(self) -> tuple[KnownForge, ...]:
        return (KnownForge(self.address, self.kind),)

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests.append(f"{request.method} {request.raw_path}")
        self.headers.append(dict(request.headers))
        if self.answers and (given := self.answers.pop(0)) is not None:
            return given
        if request.headers.get("Authorization") != _AUTHORIZATION.get(self.kind, f"Bearer {TOKEN}"):
            return web.json_response({"message": "401 Unauthorized"}, status=401)
        path, _, _ = request.raw_path.partition("?")
        body = await request.json() if request.can_read_body else {}
        prefix = _PREFIXES[self.kind]
        if path == f"/rest/build-status/1.0/commits/{'c' * 40}" and self.kind is ForgeKind.BITBUCKET_SERVER:
            assert {"state", "key", "url"} <= body.keys()
            self.statuses.append(("c" * 40, body))
            return web.Response(status=204)
        if not path.startswith(prefix):
            return web.json_response({"message": "404 Project Not Found"}, status=404)
        return self._dispatch(request, path.removeprefix(prefix), body)

    def _dispatch(self, request: web.Request, path: str, body: dict[str, Any]) -> web.Response:
        pulls = {"gitlab": "/merge_requests", "bitbucket": "/pullrequests", "bitbucket-server": "/pull-requests"}.get(self.kind, "/pulls")
        if path == pulls:
            return self._create(body) if request.method == "POST" else self._list(request)
        if status := re.fullmatch(r"/(?:statuses|commit)/(c{40})(?:/statuses/build)?|/check-runs", path):
            return self._status(status[1] or body.get("head_sha", ""), body)
        if self.kind is ForgeKind.GITEA and (by_branches := re.fullmatch(r"/pulls/([^/]+)/([^/]+)", path)):
            return self._by_branches(unquote(by_branches[1]), unquote(by_branches[2]))
        if found := re.fullmatch(rf"(?:{pulls}|/issues)/(\d+)(/[a-z]+)?", path):
            return self._on_one(request, int(found[1]), found[2] or "", body)
        return web.json_response({"message": "Not Found"}, status=404)

    def _create(self, body: dict[str, Any]) -> web.Response:
        source, target, title, text = self._read(body)
        if any((each["source"], each["target"], each["state"]) == (source, target, "open") for each in self.pulls):
            return self._duplicate(source)
        number = len(self.pulls) + 1
        pull = {"number": number, "source": source, "target": target, "title": title, "text": text, "state": "open", "version": 3}
        self.pulls.append(pull)
        return web.json_response(self._shown(pull), status=201)

    def _read(self, body: dict[str, Any]) -> tuple[str, str, str, str]:
        match self.kind:
            case ForgeKind.GITLAB:
                return body["source_branch"], body["target_branch"], body["title"], body["description"]
            case ForgeKind.BITBUCKET:
                branches = body["source"]["branch"]["name"], body["destination"]["branch"]["name"]
                return *branches, body["title"], body["description"]
            case ForgeKind.BITBUCKET_SERVER:
                assert body["fromRef"]["repository"] == {"slug": "config", "project": {"key": "SHOP"}}
                refs = [body[name]["id"].removeprefix("refs/heads/") for name in ("fromRef", "toRef")]
                return refs[0], refs[1], body["title"], body["description"]
            case _:
                return body["head"], body["base"], body["title"], body["body"]

    def _duplicate(self, source: str) -> web.Response:
        words = {
            ForgeKind.GITLAB: (409, {"message": [f"Another open merge request already exists for this source branch: !{len(self.pulls)}"]}),
            ForgeKind.GITHUB: (
                422,
                {
                    "message": "Validation Failed",
                    "errors": [
                        {"resource": "PullRequest", "code": "custom", "message": f"A pull request already exists for shop:{source}."}
                    ],
                },
            ),
            ForgeKind.GITEE: (400, {"message": "已存在相同源分支、目标分支的 Pull Request"}),
            ForgeKind.GITEA: (409, {"message": "pull request already exists for these targets", "url": "http://gitea/api/swagger"}),
            ForgeKind.BITBUCKET: (400, {"type": "error", "error": {"message": "There is already an open pull request"}}),
            ForgeKind.BITBUCKET_SERVER: (
                409,
                {
                    "errors": [
                        {
                            "context": None,
                            "message": "Only one pull request may be open for a given source and target branch",
                            "exceptionName": "com.atlassian.bitbucket.pull.DuplicatePullRequestException",
                        }
                    ]
                },
            ),
        }
        status, body = words[self.kind]
        return web.json_response(body, status=status)

    def _shown(self, pull: dict[str, Any]) -> dict[str, Any]:
        page = f"http://{self.address}/pull/{pull['number']}"
        match self.kind:
            case ForgeKind.GITLAB:
                return {"id": 7000, "iid": pull["number"], "web_url": page, "state": "opened", "source_branch": pull["source"]}
            case ForgeKind.BITBUCKET:
                return {"id": pull["number"], "state": "OPEN", "links": {"html": {"href": page}, "self": {"href": "http://api"}}}
            case ForgeKind.BITBUCKET_SERVER:
                refs = {"fromRef": {"id": f"refs/heads/{pull['source']}"}, "toRef": {"id": f"refs/heads/{pull['target']}"}}
                return {"id": pull["number"], "version": pull["version"], "state": "OPEN", "links": {"self": [{"href": page}]}, **refs}
            case _:
                refs = {"head": {"ref": pull["source"], "sha": "c" * 40}, "base": {"ref": pull["target"]}}
                return {"id": 7000, "number": pull["number"], "html_url": page, "state": pull["state"], **refs}

    def _list(self, request: web.Request) -> web.Response:
        query = request.query
        opened = [each for each in self.pulls if each["state"] == "open"]
        if self.hides_pulls > 0:
            self.hides_pulls -= 1
            opened = []
        match self.kind:
            case ForgeKind.GITLAB:
                assert query["state"] == "opened"
                opened = [each for each in opened if (each["source"], each["target"]) == (query["source_branch"], query["target_branch"])]
            case ForgeKind.BITBUCKET:
                parts = re.fullmatch(r'source\.branch\.name="(.*)" AND destination\.branch\.name="(.*)" AND state="OPEN"', query["q"])
                assert parts
                opened = [each for each in opened if (each["source"], each["target"]) == parts.groups()]
            case ForgeKind.BITBUCKET_SERVER:
                assert (query["direction"], query["state"]) == ("OUTGOING", "OPEN")
                opened = [each for each in opened if f"refs/heads/{each['source']}" == query["at"]]
            case ForgeKind.GITHUB:
                opened = [each for each in opened if (f"shop:{each['source']}", each["target"]) == (query["head"], query["base"])]
            case ForgeKind.GITEE:
                opened = [each for each in opened if (each["source"], each["target"]) == (query["head"], query["base"])]
            case _:
                assert query["state"] == "open"
        shown: Any = [self._shown(each) for each in opened]
        return web.json_response({"values": shown, "size": len(shown)} if "bitbucket" in self.kind else shown)

    def _by_branches(self, target: str, source: str) -> web.Response:
        found = [each for each in self.pulls if (each["target"], each["source"]) == (target, source)]
        if not found or self.hides_pulls > 0:
            return web.json_response({"errors": None, "message": "pull request does not exist"}, status=404)
        return web.json_response(self._shown(found[0]))

    def _on_one(self, request: web.Request, number: int, part: str, body: dict[str, Any]) -> web.Response:
        pull = self.pulls[number - 1]
        closing = {
            ForgeKind.GITLAB: ("PUT", "", "close"),
            ForgeKind.BITBUCKET: ("POST", "/decline", None),
            ForgeKind.BITBUCKET_SERVER: ("POST", "/decline", None),
        }.get(self.kind, ("PATCH", "", "closed"))
        if request.method == "GET":
            return web.json_response(self._shown(pull))
        if request.method == "POST" and part in ("/comments", "/notes"):
            self.comments.append((number, body.get("body") or body.get("text") or body["content"]["raw"]))
            return web.json_response({"id": 1}, status=201)
        if (request.method, part) == closing[:2] and (closing[2] is None or closing[2] in body.values()):
            if self.kind is ForgeKind.BITBUCKET_SERVER and request.query.get("version") != str(pull["version"]):
                return web.json_response({"errors": [{"message": "You are attempting to modify a pull request out of date"}]}, status=409)
            pull["state"] = "closed"
            return web.json_response(self._shown(pull))
        return web.json_response({"message": "Method Not Allowed"}, status=405)

    def _status(self, commit: str, body: dict[str, Any]) -> web.Response:
        wanted = {
            ForgeKind.GITLAB: {"state", "name"},
            ForgeKind.GITEE: {"name", "head_sha", "status"},
            ForgeKind.BITBUCKET: {"key", "state", "url"},
        }.get(self.kind, {"state", "context"})
        if not wanted <= body.keys():
            return web.json_response({"message": "400 Bad request"}, status=400)
        self.statuses.append((commit, body))
        return web.json_response({"id": 1}, status=201)


def failing(status: int, body: object = None, **headers: str) -> web.Response:
    """An answer that is no success. Names of headers are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(status=status, text=json.dumps(body or {"message": "no"}), headers=named, content_type="application/json")
