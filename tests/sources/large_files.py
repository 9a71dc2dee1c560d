"""A server of Git LFS beside a Git server: the batch API and basic downloads, as git-lfs's own documents describe them."""

import hashlib
import json
from collections.abc import Mapping

from aiohttp import web

from tests.sources.repositories import HttpServer

MEDIA_TYPE = "application/vnd.git-lfs+json"


def pointer_to(content: bytes) -> str:
    """What a commit holds of a file that Git LFS keeps."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(content).hexdigest()}\nsize {len(content)}\n"


class LargeFileServer:
    """Answers for `server` what is asked below `/info/lfs`.

    `elsewhere` is the address that downloads are sent to, empty for its own; `header` goes with them. What is `promised` for an object
    may be other bytes than its name says.
    """

    def __init__(self, server: HttpServer, *contents: bytes) -> None:
        self.objects = {hashlib.sha256(content).hexdigest(): content for content in contents}
        self.header: Mapping[str, str] = {}
        self.elsewhere = ""
        self.transfer = "basic"
        self.batches: list[tuple[str, dict[str, object]]] = []
        self.downloads: list[str] = []
        self.authorizations: list[str] = []
        self._server = server
        server.interfere = self.answer

    async def answer(self, request: web.Request) -> web.Response | None:
        """None for what is Git's own."""
        if "/info/lfs/" not in request.path:
            return None
        self.authorizations.append(request.headers.get("Authorization", ""))
        if self._server.logins and self._server._user(request) is None and not self.header:
            return web.Response(status=401, headers={"LFS-Authenticate": 'Basic realm="lfs"'})
        if request.path.endswith("/objects/batch"):
            return await self._batch(request)
        digest = request.path.rpartition("/")[2]
        self.downloads.append(digest)
        return web.Response(body=self.objects[digest])

    async def _batch(self, request: web.Request) -> web.Response:
        assert request.method == "POST"
        assert all(request.headers[name].startswith(MEDIA_TYPE) for name in ("Accept", "Content-Type"))
        asked = json.loads(await request.read())
        self.batches.append((request.path, asked))
        base = self.elsewhere or f"{request.scheme}://{request.host}"
        found = [self._object(base, each) for each in asked["objects"]]
        return web.Response(body=json.dumps({"transfer": self.transfer, "objects": found}).encode(), content_type=MEDIA_TYPE)

    def _object(self, base: str, asked: Mapping[str, object]) -> dict[str, object]:
        digest = str(asked["oid"])
        if digest not in self.objects:
            return {**asked, "error": {"code": 404, "message": "Object does not exist"}}
        return {**asked, "actions": {"download": {"href": f"{base}/info/lfs/{digest}", "header": dict(self.header), "expires_in": 600}}}
