"""From an answer with a status of 400 or more to the error that says what it means; pure.

The words that tell answers apart are those of kube-apiserver 1.36, in tests/data/recordings.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from delegate.engine.clusters import errors
from delegate.engine.clusters.statuses import Status, read_status, shorten
from delegate.model.resources import JsonObject


class Question(NamedTuple):
    """What was asked, as far as the answer's meaning depends on it. `resource` is a plural; empty where a path was asked."""

    verb: str
    host: str
    path: str = ""
    group: str = ""
    resource: str = ""
    namespace: str = ""
    subject: str = ""
    sensitive: bool = False

    @property
    def what(self) -> str:
        return self.subject or self.resource or self.path


_RBAC = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)"| at the cluster scope)'
)
_RBAC_PATH = re.compile(r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) path "(?P<path>[^"]*)"')
_MANAGER = re.compile(r'conflict with "(?P<manager>(?:[^"\\]|\\.)*)"(?: with subresource "(?P<subresource>[^"]*)")?')
_DENIED_BY_WEBHOOK = re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request')
_DENIED_BY_POLICY = re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)' with binding '[^']+' denied request")
_WEBHOOK_FAILED = re.compile(r'failed calling webhook "(?P<name>[^"]+)"|conversion webhook for (?P<conversion>.+?) failed')
_LIMIT_RANGE = re.compile(r"(maximum|minimum) \S+ (usage|limit to request ratio) per (Container|Pod|PersistentVolumeClaim)")
_MISSING = re.compile(
    r"error looking up service account \S*?/(?P<account>[^:]+): serviceaccount .* not found"
    r"|no PriorityClass with name (?P<priority>\S+) was found"
    r'|RuntimeClass "(?P<runtime>[^"]+)" not found'
)
_IMMUTABLE = re.compile(
    r"\bimmutable\b|may not change once set|cannot change roleRef|may not be changed in an update"
    r"|[Uu]pdates? to .* (?:is|are) forbidden|pod updates may not change fields other than"
)
_TRANSIENT_INTERNAL = re.compile(r"etcdserver: |rpc error: code = Unavailable|leader changed|server is currently unable")
_BAD_INPUT = re.compile(
    r"failed to create typed patch object|failed to convert new object|resourceVersion should not be set on objects to be created"
)
_STALE = re.compile(r"has been modified|ResourceVersion in the precondition")
_RECREATED = re.compile(r"UID in the precondition|UID in precondition|uid mismatch", re.IGNORECASE)


def explain_answer(status: int, body: JsonObject | str, question: Question, retry_after: float | None = None) -> errors.ClusterError:
    """The error behind an answer; `body` is the decoded JSON object, or the text where it wasn't JSON."""
    if isinstance(body, str):
        return _explain_text(status, body, question, retry_after)
    answer = read_status(body, sensitive=question.sensitive)
    error = _explain_status(status, answer, question)
    error.status = status
    error.reason = answer.reason
    error.causes = answer.causes
    error.object = question.subject
    error.retry_after = retry_after if retry_after is not None else answer.retry_after
    return error


def _explain_text(status: int, text: str, question: Question, retry_after: float | None) -> errors.ClusterError:
    if status == 404 and text.startswith("404 page not found"):
        return errors.UnknownKindError(
            f"{question.host} doesn't serve {question.path or question.what}",
            hint="apply the CustomResourceDefinition first, or use an apiVersion that this cluster serves (kubectl api-resources)",
            object=question.subject,
        )
    words = shorten(" ".join(text.split()), sensitive=question.sensitive)[:200]
    error: errors.ApiError | None = None
    if status == 401:
        error = _unauthorized(question)
    elif status == 429:
        error = errors.TooManyRequestsError(f"{question.host} has too many requests", hint="it is tried again after the wait it asks for")
    elif status in (502, 503, 504):
        kind = errors.ServerTimeoutError if status == 504 else errors.UnavailableError
        error = kind(f"{question.host} answered {status}: {words}", hint="the API server, or a proxy before it, is away for now")
    if error is not None:
        error.status, error.retry_after, error.object = status, retry_after, question.subject
        return error
    hint = "check the server address of the cluster and the proxies on the way to it"
    if "HTTP request to an HTTPS server" in text:
        hint = "the server address of the cluster has to begin with https://"
    return errors.NotJsonError(f"{question.host} answered {status} with no JSON: {words!r}", hint=hint, object=question.subject)


def _explain_status(status: int, answer: Status, question: Question) -> errors.ApiError:
    denied = _DENIED_BY_WEBHOOK.search(answer.message) or _DENIED_BY_POLICY.search(answer.message)
    if denied is not None:
        error = errors.AdmissionDeniedError(
            answer.message, hint=f"change the object so that {denied['name']!r} allows it, or ask those who own that policy"
        )
        error.admission = denied["name"]
        return error
    explain = _BY_STATUS.get(status)
    if explain is not None:
        return explain(answer, question)
    if status >= 500:
        return _internal(answer, question)
    return errors.ApiError(answer.message or f"{question.host} answered {status}", code=f"dependency.status_{status}")


def _bad_request(answer: Status, question: Question) -> errors.ApiError:
    return errors.SchemaError(answer.message, hint=f"correct {question.what}; kubectl explain shows its fields")


def _unauthorized(question: Question) -> errors.UnauthorizedError:
    return errors.UnauthorizedError(
        f"{question.host} doesn't accept our credentials",
        hint="renew the token or the client certificate of this cluster's kubeconfig user or service account",
    )


def _forbidden(answer: Status, question: Question) -> errors.ApiError:
    message = answer.message
    if "NamespaceTerminating" in (cause.reason for cause in answer.causes) or "because it is being terminated" in message:
        return errors.NamespaceTerminatingError(message, hint="wait until the namespace is gone; finalizers in it may hold it back")
    rbac = _RBAC.search(message)
    if rbac is not None:
        return _rbac(message, rbac, answer)
    path = _RBAC_PATH.search(message)
    if path is not None:
        error = errors.RbacError(
            message, hint=f"a ClusterRole for {path['user']!r} needs nonResourceURLs [{path['path']!r}], verbs [{path['verb']!r}]"
        )
        error.user, error.verb, error.resource = path["user"], path["verb"], path["path"]
        return error
    if "attempting to grant RBAC permissions not currently held" in message:
        return errors.EscalationError(
            message, hint="give the delegate the permissions that the role grants, or the verbs escalate and bind on roles"
        )
    if "exceeded quota: " in message or "failed quota: " in message:
        return errors.QuotaError(message, hint="raise the ResourceQuota, free something that it counts, or set the requests it asks for")
    if "violates PodSecurity" in message:
        return errors.PodSecurityError(
            message, hint="change the pod's securityContext as said, or the namespace's label pod-security.kubernetes.io/enforce"
        )
    if _LIMIT_RANGE.search(message):
        return errors.LimitRangeError(message, hint="bring the container's resources inside the namespace's LimitRange")
    missing = _MISSING.search(message)
    if missing is not None:
        kind = "ServiceAccount" if missing["account"] else "PriorityClass" if missing["priority"] else "RuntimeClass"
        return _missing(errors.MissingReferenceError, message, kind, missing["account"] or missing["priority"] or missing["runtime"])
    return errors.ForbiddenError(message, hint=f"{question.host} forbids to {question.verb} {question.what}")


def _rbac(message: str, rbac: re.Match[str], answer: Status) -> errors.RbacError:
    namespace = rbac["namespace"] or ""
    role, place = ("Role", f" in namespace {namespace}") if namespace else ("ClusterRole", "")
    rule = f'{{apiGroups: ["{rbac["group"]}"], resources: ["{rbac["resource"]}"], verbs: ["{rbac["verb"]}"]}}'
    error = errors.RbacError(message, hint=f"add to a {role}{place} that is bound to {rbac['user']!r}: {rule}")
    error.user, error.verb, error.group, error.resource = rbac["user"], rbac["verb"], rbac["group"], rbac["resource"]
    error.namespace = namespace
    return error


def _not_found(answer: Status, question: Question) -> errors.ApiError:
    if not answer.kind or not answer.name:
        return errors.NotFoundError(answer.message or f"{question.what} doesn't exist")
    plural = question.resource.partition("/")[0]
    if answer.kind == "namespaces" and plural not in ("", "namespaces"):
        return _missing(errors.NamespaceNotFoundError, answer.message, "Namespace", answer.name)
    kind = question.subject.partition(" ")[0].rpartition("/")[2].lower()
    if plural and answer.kind.lower() not in (plural, kind):
        return _missing(errors.MissingReferenceError, answer.message, answer.kind, answer.name)
    return errors.NotFoundError(answer.message)


def _missing(error_type: type[errors.MissingReferenceError], message: str, kind: str, name: str) -> errors.MissingReferenceError:
    hint = f"create {kind} {name!r} first, or add it to the set"
    if kind == "Namespace":
        hint += "; syncOptions [CreateNamespace=true] creates the destination namespace"
    error = error_type(message, hint=hint)
    error.missing_kind, error.missing_name = kind, name
    return error


def _conflict(answer: Status, question: Question) -> errors.ApiError:
    if answer.reason == "AlreadyExists":
        return errors.AlreadyExistsError(answer.message, hint=f"{question.what} was created by somebody else in the meantime")
    conflicts = tuple(_field_conflicts(answer))
    if conflicts:
        error = errors.FieldManagerConflictError(answer.message)
        error.conflicts = conflicts
        owners = ", ".join(f"{manager!r}" for manager in error.managers)
        error.hint = (
            f"{owners} set {', '.join(error.fields)}: leave these fields out of the manifest, "
            "or sync once with options {force: true} to take them over"
        )
        return error
    if _RECREATED.search(answer.message):
        return errors.RecreatedObjectError(answer.message, hint=f"{question.what} was deleted and created again; plan it anew")
    if _STALE.search(answer.message):
        return errors.StaleObjectError(answer.message, hint=f"{question.what} changed since it was read; plan it anew")
    return errors.ConflictError(answer.message)


def _field_conflicts(answer: Status) -> list[errors.FieldConflict]:
    found = []
    for cause in answer.causes:
        manager = _MANAGER.search(cause.message)
        if cause.reason == "FieldManagerConflict" and manager is not None:
            found.append(errors.FieldConflict(manager["manager"], manager["subresource"] or "", cause.field))
    return found


def _invalid(answer: Status, question: Question) -> errors.ApiError:
    if answer.causes and all(_IMMUTABLE.search(cause.message) for cause in answer.causes):
        if all(cause.field == "metadata.uid" for cause in answer.causes):
            return errors.RecreatedObjectError(answer.message, hint=f"{question.what} was deleted and created again; plan it anew")
        fields = ", ".join(dict.fromkeys(cause.field for cause in answer.causes))
        return errors.ImmutableFieldError(
            answer.message,
            hint=f"{fields} can't change; set it back, use another name, or let it be replaced (options {{replace: true, force: true}})",
        )
    return errors.InvalidError(answer.message, hint=f"correct {question.what}")


def _too_many(answer: Status, question: Question) -> errors.ApiError:
    budget = [cause.message for cause in answer.causes if cause.reason == "DisruptionBudget"]
    if budget:
        return errors.DisruptionBudgetError(f"{answer.message} {budget[0]}", hint="wait until more pods are healthy")
    return errors.TooManyRequestsError(answer.message, hint="it is tried again after the wait that the server asks for")


def _internal(answer: Status, question: Question) -> errors.ApiError:
    message = answer.message or f"{question.host} failed"
    if _BAD_INPUT.match(message):
        return errors.SchemaError(message, hint=f"correct {question.what}; kubectl explain shows its fields")
    webhook = _WEBHOOK_FAILED.search(message)
    if webhook is not None:
        name = webhook["name"] or webhook["conversion"]
        error = errors.WebhookUnreachableError(
            message, hint=f"the service behind webhook {name!r} has to run, or its configuration has to go"
        )
        error.webhook = name
        return error
    if answer.reason in ("Timeout", "ServerTimeout"):
        return errors.ServerTimeoutError(message, hint="the API server is slow; it is tried again")
    if _TRANSIENT_INTERNAL.search(message):
        return errors.UnavailableError(message, hint="the API server has no quorum or leader for now; it is tried again")
    return errors.InternalServerError(message, hint="see the API server's own log")


def _unavailable(answer: Status, question: Question) -> errors.ApiError:
    return errors.UnavailableError(
        answer.message or f"{question.host} is not available",
        hint="the API server, or the API service behind this group, is away for now (kubectl get apiservices)",
    )


_BY_STATUS: dict[int, Callable[[Status, Question], errors.ApiError]] = {
    400: _bad_request,
    401: lambda _, question: _unauthorized(question),
    403: _forbidden,
    404: _not_found,
    409: _conflict,
    410: lambda answer, _: errors.ExpiredError(answer.message, hint="list again"),
    413: lambda answer, question: errors.RequestTooLargeError(answer.message, hint=f"split {question.what} or make it smaller"),
    415: _bad_request,
    422: _invalid,
    429: _too_many,
    502: _unavailable,
    503: _unavailable,
    504: lambda answer, _: errors.ServerTimeoutError(answer.message, hint="the API server is slow; it is tried again"),
}
