"""Sends recorded exchanges to a server and says where its answers differ from the recorded ones.

Compared are status code, reason, causes, and the objects' identity, spec, data and ownership. Placeholders such as `<uid-1>` stand
for values that differ from server to server: the first answer binds one, later ones must agree. What controllers write in their own
time is not compared here (`sequences` does that).
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp

RECORDINGS = Path(__file__).parent.parent / "data" / "recordings"
IN_ORDER = (
    "ssa-create-update",
    "ssa-conflict",
    "ssa-lists",
    "ssa-defaults",
    "errors",
    "dry-run",
    "patch-kinds",
    "delete",
    "list-watch",
    "discovery",
    "crd",
    "access",
    "ssa-migration",
    "immutable",
    "ownership-drift",
)
_PLACEHOLDER = re.compile(r"^<(uid|rv)-\d+>$|^<(time|any|continue)>$|^<\d+ characters>$")
_EMBEDDED = re.compile(r"<(uid|rv)\\-\d+>")
_ADDRESS = re.compile(r"^10\.\d+\.\d+\.\d+$")
_GENERATED = re.compile(r"^(gen|kube-api-access)-[a-z0-9]{5}$")
_SKIPPED_ANNOTATIONS = {"deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"}
_CONTROLLERS = {"kube-controller-manager", "kube-apiserver"}


def load(name: str) -> Any:
    return json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))


class Replay:
    """One recording against one server. `wording` compares messages word by word too."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, tokens: dict[str, str], *, wording: bool = False, settle: float = 0.3
    ) -> None:
        self._session = session
        self._url = url
        self._tokens = tokens
        self._wording = wording
        self._settle = settle
        self._bound: dict[str, Any] = {}
        self._versions = False

    async def play(self, name: str) -> list[str]:
        """Every difference, as lines that name the step."""
        self._bound = {}
        self._versions = name == "ssa-create-update"
        found = []
        for number, step in enumerate(load(name)["steps"], 1):
            if "events" in step["response"]:
                lines = await self._watch(step)
            elif self._is_timing(step):
                continue
            else:
                lines = await self._request(step)
            found += [f"{name} step {number} ({step['note']}): {line}" for line in lines]
        return found

    def _is_timing(self, step: Any) -> bool:
        request = step["request"]
        oversized = str(request.get("rawBody", "")).startswith("<") or "characters>" in json.dumps(request.get("body", ""))
        return oversized or str(step["note"]).startswith("right after")

    async def _request(self, step: Any) -> list[str]:
        request, want = step["request"], step["response"]
        user = request.get("user", "admin")
        headers = {} if user == "none" else {"Authorization": f"Bearer {self._tokens.get(user, 'no-such-token')}"}
        data = json.dumps(self._filled(request["body"])) if "body" in request else request.get("rawBody")
        if "contentType" in request:
            headers["Content-Type"] = request["contentType"]
        if "accept" in request:
            headers["Accept"] = request["accept"]
        params = self._filled(request["params"])
        async with self._session.request(
            request["method"], self._url + request["path"], params=params, data=data, headers=headers
        ) as answer:
            text = await answer.text()
            status = answer.status
        if request["method"] == "DELETE" or "customresourcedefinitions" in request["path"]:
            await asyncio.sleep(self._settle)  # the recorded steps left the controllers a second, too
        if status != want["status"]:
            return [f"status: wanted {want['status']}, got {status}: {text[:200]}"]
        if not isinstance(want["body"], dict | list):
            return []
        return self.differences(want["body"], json.loads(text), "")

    async def _watch(self, step: Any) -> list[str]:
        request = step["request"]
        events: list[Any] = []
        changes = asyncio.create_task(self._meanwhile(step))
        seconds = int(request["params"].get("timeoutSeconds", "3"))
        headers = {"Authorization": f"Bearer {self._tokens['admin']}"}
        timeout = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._session.get(
                self._url + request["path"], params=self._filled(request["params"]), headers=headers, timeout=timeout
            ) as answer:
                assert answer.status == step["response"]["status"], await answer.text()
                async for line in answer.content:
                    events.append(json.loads(line))  # noqa: PERF401  # what came before the time was over counts
        except TimeoutError:
            pass
        await changes
        want, got = _steady(step["response"]["events"]), _steady(events)
        if _named(want) != _named(got):
            return [f"events: wanted {_named(want)}, got {_named(got)}"]
        return [line for left, right in zip(want, got, strict=True) for line in self.differences(left["object"], right["object"], "")]

    async def _meanwhile(self, step: Any) -> None:
        await asyncio.sleep(0.2)
        for change in step.get("meanwhile", []):
            headers = {"Authorization": f"Bearer {self._tokens['admin']}"}
            data = json.dumps(change["body"]) if "body" in change else None
            if data:
                headers["Content-Type"] = change["contentType"]
            params = {"fieldManager": "editor"} if change["method"] == "PATCH" else {}
            url = self._url + change["path"]
            async with self._session.request(change["method"], url, data=data, params=params, headers=headers) as answer:
                await answer.read()

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if value == "<time>":
            return "2026-01-01T00:00:00Z"
        return self._bound.get(value, value) if isinstance(value, str) else value

    def differences(self, want: Any, got: Any, path: str) -> list[str]:
        if isinstance(want, str) and _PLACEHOLDER.match(want):
            return self._bind(want, got, path)
        if isinstance(want, str) and isinstance(got, str) and any(form.match(want) and form.match(got) for form in (_ADDRESS, _GENERATED)):
            return []
        if isinstance(want, dict):
            return self._map_differences(want, got, path)
        if isinstance(want, list):
            if not isinstance(got, list) or len(want) != len(got):
                return [f"{path}: wanted {want!r:.200}, got {got!r:.200}"]
            pairs = enumerate(zip(want, got, strict=True))
            return [line for index, (left, right) in pairs for line in self.differences(left, right, f"{path}[{index}]")]
        return [] if want == got else [f"{path}: wanted {want!r:.200}, got {got!r:.200}"]

    def _bind(self, want: str, got: Any, path: str) -> list[str]:
        if got is None:
            return [f"{path}: missing"]
        if want in ("<any>", "<time>") or want.endswith("characters>"):
            return []
        if self._bound.get(want, got) != got and want != "<continue>":
            return [f"{path}: {want} was {self._bound[want]!r}, now {got!r}"]
        self._bound[want] = got
        return []

    def _map_differences(self, want: dict[str, Any], got: Any, path: str) -> list[str]:
        if not isinstance(got, dict):
            return [f"{path}: wanted an object, got {got!r:.200}"]
        out = []
        for key in sorted(want.keys() | got.keys()):
            here = f"{path}.{key}"
            if key == "status" and not isinstance(want.get(key, ""), str):
                continue
            if key == "selfLink" or (key == "message" and not self._wording):
                continue
            if key == "message" and isinstance(want.get(key), str) and _same_text(want[key], got.get(key)):
                continue
            if key in ("resourceVersion", "generation") and not self._versions:
                if isinstance(want.get(key), str):
                    self._bound[want[key]] = got.get(key)
            elif key == "annotations":
                out += self.differences(_without_skipped(want.get(key)), _without_skipped(got.get(key)), here)
            elif key == "managedFields":
                out += self.differences(_without_controllers(want.get(key)), _without_controllers(got.get(key)), here)
            elif key not in got:
                out.append(f"{here}: missing, wanted {want[key]!r:.200}")
            elif key not in want:
                out.append(f"{here}: not in the recording, got {got[key]!r:.200}")
            else:
                out += self.differences(want[key], got[key], here)
        return out


def _same_text(want: str, got: Any) -> bool:
    """Whether a message is the recorded one, whatever uids it names."""
    form = _EMBEDDED.sub(r"[^\\s\"]+", re.escape(want))
    return isinstance(got, str) and re.fullmatch(form, got) is not None


def _without_skipped(annotations: Any) -> dict[str, Any]:
    return {key: value for key, value in (annotations or {}).items() if key not in _SKIPPED_ANNOTATIONS}


def _without_controllers(entries: Any) -> list[Any]:
    """In an order that doesn't depend on the second in which each was written, by which the server sorts them."""
    found = [entry for entry in entries or [] if entry.get("manager") not in _CONTROLLERS]
    return sorted(found, key=lambda entry: (entry["operation"], entry["manager"], entry.get("subresource", ""), entry["apiVersion"]))


def _steady(events: list[Any]) -> list[Any]:
    """The events whose order and content do not depend on timing."""
    return [
        event
        for event in events
        if event["type"] != "BOOKMARK" or "k8s.io/initial-events-end" in (event["object"].get("metadata", {}).get("annotations") or {})
    ]


def _named(events: list[Any]) -> list[tuple[str, Any]]:
    return [(event["type"], event["object"].get("metadata", {}).get("name")) for event in events]
