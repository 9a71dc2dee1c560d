"""From an HTTP request to its answer: authentication, authorization, faults, and the verb's own work."""

import asyncio
import contextlib

import msgspec
import structlog
from aiohttp import web

from delegate.model.resources import JsonObject
from delegate.simulator import (
    aggregation,
    answers,
    bodies,
    delete_options,
    deletions,
    faults,
    identities,
    logs,
    patches,
    reads,
    reviews,
    scales,
    statuses,
    subresources,
    write_options,
    writes,
)
from delegate.simulator.authorization import ANONYMOUS, Attributes, Authorizer, User, attributes_of, plain_user, refusal
from delegate.simulator.counters import Requests
from delegate.simulator.deletions import DeleteOptions
from delegate.simulator.documents import Documents
from delegate.simulator.faults import Faults
from delegate.simulator.kinds import Resource
from delegate.simulator.permissions import Permissions
from delegate.simulator.reads import Form, Lists
from delegate.simulator.registry import Registry
from delegate.simulator.requests import LARGEST_BODY, RequestInfo, parse_path
from delegate.simulator.storing import Options, Outcome
from delegate.simulator.tokens import Tokens
from delegate.simulator.watches import Watch
from delegate.simulator.writes import Write

log = structlog.get_logger()
TOKEN_HEADER = "Impersonate-Extra-Simulator-Token"  # noqa: S105  # the name of a header
"""Where kubeconfigs for plain http carry the token: `as-user-extra: {simulator-token: [...]}`."""


class Handlers:
    """Answers every request; holds what the answers depend on."""

    def __init__(self, registry: Registry, users: dict[str, User]) -> None:
        self.registry = registry
        self.users = users
        self.tokens = Tokens(registry)
        self.authorizer = Authorizer(registry)
        self.requests = Requests()
        self.faults = Faults()
        self.lists = Lists(registry)
        self._documents = Documents(registry)
        self.watches: set[Watch] = set()

    def user_of(self, token: str) -> User | None:
        """Whom a token stands for."""
        return self.users.get(token) or self.tokens.user_of(token)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The web server's handler; every refusal becomes a Status."""
        try:
            return await self._answer(request)
        except statuses.StatusError as error:
            return answers.of_refusal(error)
        except faults.RefusedConnectionError:
            if request.transport is not None:
                request.transport.close()
            return web.Response(status=500)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # the boundary of the HTTP server: a fault of ours is a 500, logged with its traceback
            log.exception("simulator.request_failed", path=request.path, method=request.method)
            return answers.of_refusal(statuses.StatusError(500, f"Internal error occurred: {error}", reason="InternalError"))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        query = request.query
        info = parse_path(request.method, request.path, query)
        user = self._authenticate(request)
        self.requests.note(info, user.name, dry_run=query.get("dryRun") == "All")
        fault = self.faults.take(info)
        if fault is not None:
            await faults.act(fault)
        resource = self.registry.resource(info.group, info.version, info.plural) if info.is_resource else None
        if not self.authorizer.allows(user, attributes_of(info)):
            raise refusal(user, info, resource)
        if not info.is_resource:
            return self._documents.answer(request, info)
        if resource is None:
            remote = aggregation.is_remote(self.registry, info.group, info.version)
            raise aggregation.unavailable() if remote else statuses.page_not_found()
        if info.subresource and info.subresource not in resource.subresources:
            raise statuses.page_not_found()
        if resource.namespaced and info.name and not info.namespace:
            raise statuses.page_not_found()
        try:
            response = await self._resource(request, info, resource, user, fault)
        except statuses.StatusError as error:
            error.warnings = [*resource.deprecations, *error.warnings]
            raise
        if not response.prepared:
            answers.warn(response, resource.deprecations)
        return response

    def _authenticate(self, request: web.BaseRequest) -> User:
        """Who sends a request, and whom they act as. kubectl sends no bearer token over plain http, but impersonation headers."""
        header = request.headers.get("Authorization", "")
        kind, _, token = header.partition(" ")
        if not header:
            token = request.headers.get(TOKEN_HEADER, "")
        elif kind.lower() != "bearer":
            raise statuses.unauthorized()
        user = self.user_of(token.strip()) if token else ANONYMOUS
        if user is None:
            raise statuses.unauthorized()
        wanted = request.headers.get("Impersonate-User", "")
        if not wanted or wanted == user.name:
            return user
        if not self.authorizer.allows(user, Attributes("impersonate", plural="users", name=wanted)):
            why = f'User "{user.name}" cannot impersonate resource "users" in API group "" at the cluster scope'
            raise statuses.forbidden("users", "", wanted, why)
        groups = request.headers.getall("Impersonate-Group", [])
        return plain_user(wanted, *groups)

    async def _resource(
        self, request: web.BaseRequest, info: RequestInfo, resource: Resource, user: User, fault: faults.Fault | None
    ) -> web.StreamResponse:
        verb = info.verb
        below = resource.subresources.get(info.subresource) if info.subresource else None
        allowed = below.verbs if below else resource.verbs
        misplaced = not info.name if verb in ("update", "patch") else verb == "create" and bool(info.name) and not info.subresource
        if verb not in allowed or misplaced:
            raise statuses.method_not_allowed()
        if info.subresource in subresources.STREAMS:
            raise subresources.no_stream(info)
        if verb in ("get", "list", "watch"):
            form = reads.form_of(request.headers.get("Accept", ""))
            if verb == "watch":
                return await self._watch(request, info, resource, form, fault)
            return await self._read(request, info, resource, form)
        body = await self._body(request)
        if verb in ("delete", "deletecollection"):
            return self._delete(request, info, resource, body)
        outcome = self._write(request, info, resource, user, body)
        form = reads.form_of(request.headers.get("Accept", ""))
        shaped = reads.shaped(outcome.body, resource, form, self.registry.now())
        raw = outcome.stored.raw if shaped is outcome.body and _is_stored(outcome, resource) else msgspec.json.encode(shaped)  # type: ignore[union-attr]
        return answers.of_bytes(raw, 201 if outcome.created else 200, outcome.warnings)

    async def _body(self, request: web.BaseRequest) -> bytes:
        if request.content_length is not None and request.content_length > LARGEST_BODY:
            await request.content.read(LARGEST_BODY * 4)
            raise _too_large()
        parts = []
        size = 0
        async for chunk in request.content.iter_any():
            size += len(chunk)
            if size > LARGEST_BODY:
                raise _too_large()
            parts.append(chunk)
        return b"".join(parts)

    async def _read(self, request: web.BaseRequest, info: RequestInfo, resource: Resource, form: Form) -> web.StreamResponse:
        if info.subresource and info.subresource not in ("status", "scale"):
            return await logs.answer(self.registry, resource, info, request)
        if not info.name:
            namespace = (info.namespace or None) if resource.namespaced else ""
            return answers.of_bytes(self.lists.answer(resource, namespace, request.query, form))
        stored = self.registry.get(resource, info.namespace if resource.namespaced else "", info.name)
        if stored is None:
            raise statuses.not_found(resource.plural, resource.group, info.name)
        if info.subresource == "scale":
            return answers.of_body(scales.scale_of(resource, writes.as_version(stored, resource)))
        if form is reads.WHOLE:
            return answers.of_bytes(reads.raw_object(stored, resource))
        body, include = writes.as_version(stored, resource), request.query.get("includeObject", "")
        return answers.of_body(reads.shaped(body, resource, form, self.registry.now(), include))

    async def _watch(
        self, request: web.BaseRequest, info: RequestInfo, resource: Resource, form: Form, fault: faults.Fault | None
    ) -> web.StreamResponse:
        query = dict(request.query)
        if info.name:
            query["fieldSelector"] = f"metadata.name={info.name}"
        namespace = (info.namespace or None) if resource.namespaced else ""
        watch = Watch(self.registry, resource, namespace, query, form)
        response = web.StreamResponse(headers=answers.UNCACHED)
        response.enable_chunked_encoding()
        await response.prepare(request)
        self.watches.add(watch)
        cut = asyncio.timeout(fault.seconds if fault is not None and fault.kind == "drop_watch" else None)
        try:
            async with cut:
                async for line in watch.lines():
                    await response.write(line)
        except TimeoutError:
            if request.transport is not None:
                request.transport.close()
            return response
        except ConnectionError:
            return response
        finally:
            self.watches.discard(watch)
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response

    def _write(self, request: web.BaseRequest, info: RequestInfo, resource: Resource, user: User, data: bytes) -> Outcome:
        applies = info.verb == "patch" and request.content_type == writes.APPLY_PATCH
        agent = request.headers.get("User-Agent", "")
        options = write_options.read(info, request.query, agent, user.name, applies=applies)
        if info.verb == "create":
            return self._create(resource, info, bodies.read(data, _media_type(request), _kind_of(resource, info)), options, user)
        write = Write(self.registry, resource, info.namespace, info.name, options=options)
        write.permissions = Permissions(self.authorizer, user, info)
        try:
            return self._change(request, info, write, data)
        except statuses.StatusError as error:
            error.warnings = write.warnings
            raise

    def _change(self, request: web.BaseRequest, info: RequestInfo, write: Write, data: bytes) -> Outcome:
        """PUT and PATCH."""
        if info.verb == "update":
            return _replaced(write, bodies.read(data, _media_type(request), _kind_of(write.resource, info)))
        if request.content_type == writes.APPLY_PATCH:
            return _applied(write, bodies.read_configuration(data))
        return _patched(write, request.content_type, data)

    def _create(self, resource: Resource, info: RequestInfo, sent: bodies.Body, options: Options, user: User) -> Outcome:
        if info.subresource:
            body: JsonObject = sent.value or {}
            return subresources.create(self.registry, resource, info, body, options, tokens=self.tokens)
        if "get" not in resource.verbs and "list" not in resource.verbs and resource.kind != "Binding":
            asker = reviews.Asker(user, options.manager)
            body = identities.check(sent, resource)
            return Outcome(reviews.answer(resource, body, asker, self.authorizer, self.user_of), created=True)
        body = identities.check(sent, resource)
        namespace = info.namespace
        if resource.namespaced and not namespace:
            namespace = (body.get("metadata") or {}).get("namespace") or "default"
        write = Write(self.registry, resource, namespace, options=options)
        write.permissions = Permissions(self.authorizer, user, info)
        try:
            return write.create(body, sent)
        except statuses.StatusError as error:
            error.warnings = write.warnings
            raise

    def _delete(self, request: web.BaseRequest, info: RequestInfo, resource: Resource, data: bytes) -> web.Response:
        given = bodies.read_options(data, _media_type(request)) if data else None
        options = delete_options.from_body(given) if data else delete_options.from_query(request.query)
        namespace = info.namespace if resource.namespaced else ""
        if info.verb == "deletecollection":
            return answers.of_bytes(self._delete_collection(request, resource, namespace, options))
        deleted = deletions.delete(self.registry, resource, namespace, info.name, options)
        return answers.of_bytes(msgspec.json.encode(deleted.body), 200, deleted.warnings)

    def _delete_collection(self, request: web.BaseRequest, resource: Resource, namespace: str, options: DeleteOptions) -> bytes:
        place = (namespace or None) if resource.namespaced else ""
        answer = self.lists.answer(resource, place, request.query, reads.WHOLE)
        selection = reads.selection_of(resource, request.query)
        for stored in list(self.registry.items(resource, place)):
            if selection.matches(writes.as_version(stored, resource)):
                deletions.delete(self.registry, resource, stored.namespace, stored.name, options)
        return answer


def _media_type(request: web.BaseRequest) -> str:
    return request.content_type if "Content-Type" in request.headers else bodies.JSON


def _kind_of(resource: Resource, info: RequestInfo) -> str:
    """What a body has to be, by its path."""
    below = resource.subresources.get(info.subresource) if info.subresource else None
    return below.kind if below is not None else resource.kind


def _replaced(write: Write, sent: bodies.Body) -> Outcome:
    match write.options.subresource:
        case "scale":
            body: JsonObject = sent.value or {}
            identities.check_typed(sent, body.get("apiVersion") or "", body.get("kind") or "", "autoscaling/v1", "Scale")
            return scales.write_scale(write, body, applied=False)
        case "finalize":
            return subresources.finalize(write, identities.check(sent, write.resource))
        case _:
            return write.replace(identities.check(sent, write.resource), sent)


def _applied(write: Write, sent: bodies.Body) -> Outcome:
    write.note_repeated(sent)
    if write.options.subresource == "scale":
        return scales.write_scale(write, sent.value or {}, applied=True)
    return write.apply(sent.value)


def _patched(write: Write, kind: str, data: bytes) -> Outcome:
    known = (writes.JSON_PATCH, writes.MERGE_PATCH, writes.STRATEGIC_PATCH)
    if kind not in known or (kind == writes.STRATEGIC_PATCH and write.resource.custom):
        raise statuses.StatusError(415, "415: Unsupported Media Type", reason="UnsupportedMediaType", details={})
    patch = patches.read(data, kind)
    if write.options.subresource == "scale":
        return scales.patch_scale(write, kind, patch)
    return write.patch(kind, patch, patches.remarks(data, kind))


def _is_stored(outcome: Outcome, resource: Resource) -> bool:
    return outcome.stored is not None and outcome.stored.body is outcome.body and resource.version == resource.storage_version


def _too_large() -> statuses.StatusError:
    return statuses.StatusError(413, f"Request entity too large: limit is {LARGEST_BODY}", reason="RequestEntityTooLarge")
