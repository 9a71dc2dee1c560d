"""Every refusal of a real API server is told apart.

The table names, for each recorded answer with a status of 400 or more, the error that it becomes and its code.
"""

import re

import pytest

from delegate.engine.clusters import errors
from delegate.engine.clusters.answers import Question, explain_answer
from delegate.engine.clusters.retrying import is_worth_retrying
from delegate.foundation.errors import Category
from delegate.model.resources import ResourceKey
from tests.cluster.recordings import RecordedAnswer, recorded

REFUSALS = [answer for answer in recorded() if answer.status >= 400]

EXPECTED: dict[tuple[str, str], tuple[type[errors.ClusterError], str]] = {
    ("access", "create in a terminating namespace"): (errors.NamespaceTerminatingError, "conflict.namespace_terminating"),
    ("admission", "configmaps"): (errors.QuotaError, "policy.quota"),
    ("admission", "the quota refuses the last"): (errors.QuotaError, "policy.quota"),
    ("admission", "the Pod itself is refused"): (errors.PodSecurityError, "policy.pod_security"),
    ("admission", "denied by the policy"): (errors.AdmissionDeniedError, "policy.admission"),
    ("admission", "the webhook's service does not exist"): (errors.WebhookUnreachableError, "dependency.webhook"),
    ("admission", "over the limit range's maximum"): (errors.LimitRangeError, "policy.limit_range"),
    ("crd", "before the definition exists"): (errors.UnknownKindError, "dependency.unknown_kind"),
    ("crd", "right after the definition was created"): (errors.UnknownKindError, "dependency.unknown_kind"),
    ("crd", "unknown field is refused"): (errors.SchemaError, "input.schema"),
    ("crd", "validation: 422"): (errors.InvalidError, "input.invalid"),
    ("crd", "widgets"): (errors.UnknownKindError, "dependency.unknown_kind"),
    ("delete", "apply onto a terminating object"): (errors.FieldManagerConflictError, "conflict.field_manager"),
    ("delete", "configmaps"): (errors.NotFoundError, "dependency.not_found"),
    ("delete", "uid precondition fails"): (errors.RecreatedObjectError, "conflict.uid"),
    ("dry-run", "still missing"): (errors.NotFoundError, "dependency.not_found"),
    ("errors", "unknown field, Strict"): (errors.SchemaError, "input.schema"),
    ("errors", "unknown field under SSA without Strict"): (errors.SchemaError, "input.schema"),
    ("errors", "wrong type under SSA"): (errors.SchemaError, "input.schema"),
    ("errors", "wrong type on POST"): (errors.SchemaError, "input.schema"),
    ("errors", "selector does not match"): (errors.InvalidError, "input.invalid"),
    ("errors", "required field missing"): (errors.InvalidError, "input.invalid"),
    ("errors", "invalid name"): (errors.InvalidError, "input.invalid"),
    ("errors", "name in body differs from path"): (errors.SchemaError, "input.schema"),
    ("errors", "no fieldManager"): (errors.InvalidError, "input.invalid"),
    ("errors", "empty body"): (errors.SchemaError, "input.schema"),
    ("errors", "malformed body"): (errors.SchemaError, "input.schema"),
    ("errors", "wrong content type"): (errors.SchemaError, "input.schema"),
    ("errors", "apiVersion differs from path"): (errors.SchemaError, "input.schema"),
    ("errors", "unknown group"): (errors.UnknownKindError, "dependency.unknown_kind"),
    ("errors", "missing object"): (errors.NotFoundError, "dependency.not_found"),
    ("errors", "namespace missing"): (errors.NamespaceNotFoundError, "dependency.namespace_not_found"),
    ("errors", "already exists"): (errors.AlreadyExistsError, "conflict.already_exists"),
    ("errors", "stale resourceVersion"): (errors.StaleObjectError, "conflict.resource_version"),
    ("errors", "immutable selector"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("errors", "immutable Job template"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("errors", "immutable clusterIP"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("errors", "forbidden StatefulSet update"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("errors", "over 1 MiB of data"): (errors.InvalidError, "input.invalid"),
    ("errors", "over the request limit"): (errors.RequestTooLargeError, "input.too_large"),
    ("errors", "annotations over 256 KiB"): (errors.InvalidError, "input.invalid"),
    ("errors", "managedFields in the intent"): (errors.SchemaError, "input.schema"),
    ("errors", "401"): (errors.UnauthorizedError, "permission.unauthorized"),
    ("errors", "403 on list"): (errors.RbacError, "permission.rbac"),
    ("errors", "403 on patch"): (errors.RbacError, "permission.rbac"),
    ("errors", "anonymous"): (errors.RbacError, "permission.rbac"),
    ("errors", "node port taken"): (errors.InvalidError, "input.invalid"),
    ("errors", "removed API version"): (errors.UnknownKindError, "dependency.unknown_kind"),
    ("eviction", "eviction"): (errors.DisruptionBudgetError, "policy.disruption_budget"),
    ("immutable", "claim templates"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("immutable", "selector"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("immutable", "Job template"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("immutable", "clusterIP to None"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("immutable", "merely invalid, not immutable"): (errors.InvalidError, "input.invalid"),
    ("immutable", "Secret type"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("immutable", "immutable: true"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("immutable", "roleRef"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("immutable", "claim access modes"): (errors.ImmutableFieldError, "input.immutable_field"),
    ("lease", "409 AlreadyExists"): (errors.AlreadyExistsError, "conflict.already_exists"),
    ("lease", "stale"): (errors.StaleObjectError, "conflict.resource_version"),
    ("list-watch", "400"): (errors.SchemaError, "input.schema"),
    ("list-watch", "too large resource version"): (errors.ServerTimeoutError, "transient.server_timeout"),
    ("patch-kinds", "failed test"): (errors.InvalidError, "input.invalid"),
    ("patch-kinds", "PUT to a missing object"): (errors.NotFoundError, "dependency.not_found"),
    ("patch-kinds", "generateName under SSA"): (errors.SchemaError, "input.schema"),
    ("ssa-conflict", "beta wants other replicas"): (errors.FieldManagerConflictError, "conflict.field_manager"),
    ("ssa-conflict", "partial intent conflicts too"): (errors.FieldManagerConflictError, "conflict.field_manager"),
    ("ssa-conflict", "alpha now conflicts with beta"): (errors.FieldManagerConflictError, "conflict.field_manager"),
    ("ssa-conflict", "conflict names manager and subresource"): (errors.FieldManagerConflictError, "conflict.field_manager"),
    ("ssa-lists", "duplicate key in a keyed list"): (errors.SchemaError, "input.schema"),
    ("ssa-lists", "protocol left out twice"): (errors.SchemaError, "input.schema"),
    ("ssa-migration", "what was there before"): (errors.FieldManagerConflictError, "conflict.field_manager"),
}


def expectation(answer: RecordedAnswer) -> tuple[type[errors.ClusterError], str]:
    """The longest note that fits; an answer without a note goes by its path."""
    text = answer.note or answer.path
    fitting = [note for file, note in EXPECTED if file == answer.file and note in text]
    assert fitting, f"{answer} is in no row of the table"
    return EXPECTED[answer.file, max(fitting, key=len)]


def question_for(answer: RecordedAnswer) -> Question:
    """What the client would have asked to be answered so."""
    parts = answer.path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subject = str(ResourceKey(group, "Kind", namespace, name)) if name else ""
    return Question(
        verb="apply", host="https://api.example", path=answer.path, group=group, resource=rest[0], namespace=namespace, subject=subject
    )


def explained(file: str, note: str) -> errors.ClusterError:
    answer = next(answer for answer in REFUSALS if answer.file == file and note in answer.note)
    return explain_answer(answer.status, answer.body, question_for(answer))


@pytest.mark.parametrize("answer", REFUSALS, ids=str)
def test_each_recorded_refusal_becomes_its_own_error(answer: RecordedAnswer) -> None:
    """The error's class and code are those of the table, its message is short and it says what to do."""
    error_type, code = expectation(answer)

    error = explain_answer(answer.status, answer.body, question_for(answer))

    assert type(error) is error_type
    assert error.code == code
    assert error.code.startswith(f"{error.category.value}.")
    assert 0 < len(error.message) < 1000
    assert "@@" not in error.message
    if not isinstance(error, errors.NotFoundError | errors.ApiError) or error.category in (Category.PERMISSION, Category.POLICY):
        assert error.hint


@pytest.mark.parametrize("answer", REFUSALS, ids=str)
def test_input_is_never_tried_again(answer: RecordedAnswer) -> None:
    """No refusal for what was sent, or for who sent it, is worth a second try, whatever its status."""
    error = explain_answer(answer.status, answer.body, question_for(answer))

    if error.category in (Category.INPUT, Category.PERMISSION) or isinstance(error, errors.ConflictError):
        assert not error.retryable
        assert not is_worth_retrying(error, idempotent=True)


def test_a_field_conflict_names_managers_and_fields() -> None:
    """A conflict carries who owns which field, and through which subresource."""
    error = explained("ssa-conflict", "conflict names manager and subresource")

    assert isinstance(error, errors.FieldManagerConflictError)
    assert error.conflicts == (errors.FieldConflict("hpa", "scale", ".spec.replicas"),)
    assert error.managers == ("hpa",)
    assert error.fields == (".spec.replicas",)
    assert "'hpa'" in error.hint
    assert ".spec.replicas" in error.hint


def test_a_missing_permission_names_the_rule_to_add() -> None:
    """An RBAC refusal says who needs which verb on what, where, as the rule that grants it."""
    error = explained("errors", "403 on patch")

    assert isinstance(error, errors.RbacError)
    assert (error.user, error.verb, error.group, error.resource, error.namespace) == ("limited", "patch", "apps", "deployments", "rec")
    assert error.hint == (
        'add to a Role in namespace rec that is bound to \'limited\': {apiGroups: ["apps"], resources: ["deployments"], verbs: ["patch"]}'
    )


def test_a_missing_permission_at_cluster_scope_asks_for_a_cluster_role() -> None:
    """Without a namespace, the rule belongs into a ClusterRole."""
    message = 'namespaces "a" is forbidden: User "bot" cannot get resource "namespaces" in API group "" at the cluster scope'
    error = explain_answer(403, {"message": message, "reason": "Forbidden", "code": 403}, Question("get", "h"))

    assert isinstance(error, errors.RbacError)
    assert error.namespace == ""
    assert error.hint.startswith("add to a ClusterRole that is bound to 'bot'")


@pytest.mark.parametrize(
    ("message", "kind", "name"),
    [
        (
            'pods "a" is forbidden: error looking up service account demo/runner: serviceaccount "runner" not found',
            "ServiceAccount",
            "runner",
        ),
        ('pods "a" is forbidden: no PriorityClass with name high was found', "PriorityClass", "high"),
        ('pods "a" is forbidden: pod rejected: RuntimeClass "gvisor" not found', "RuntimeClass", "gvisor"),
    ],
)
def test_a_refusal_for_something_missing_names_it(message: str, kind: str, name: str) -> None:
    """What another member of the set may bring is no lack of permission."""
    error = explain_answer(403, {"message": message, "reason": "Forbidden", "code": 403}, Question("create", "h", resource="pods"))

    assert isinstance(error, errors.MissingReferenceError)
    assert (error.missing_kind, error.missing_name) == (kind, name)
    assert error.category is Category.DEPENDENCY


def test_a_binding_to_a_missing_role_names_the_role() -> None:
    """A 404 about another object than the one asked for is a missing reference, not a missing object."""
    body = {
        "message": 'roles.rbac.authorization.k8s.io "reader" not found',
        "reason": "NotFound",
        "details": {"name": "reader", "group": "rbac.authorization.k8s.io", "kind": "roles"},
        "code": 404,
    }
    question = Question(
        "apply",
        "h",
        group="rbac.authorization.k8s.io",
        resource="rolebindings",
        namespace="a",
        subject="rbac.authorization.k8s.io/RoleBinding a/reader",
    )

    error = explain_answer(404, body, question)

    assert isinstance(error, errors.MissingReferenceError)
    assert (error.missing_kind, error.missing_name) == ("roles", "reader")


def test_one_cause_that_is_merely_invalid_makes_the_whole_answer_invalid() -> None:
    """Replacing an object must not be proposed for a change that would be refused on a new object too."""
    causes = [
        {"reason": "FieldValueInvalid", "message": "Invalid value: 1: field is immutable", "field": "spec.selector"},
        {"reason": "FieldValueInvalid", "message": "Invalid value: 99999: must be between 1 and 65535", "field": "spec.port"},
    ]
    body = {
        "message": 'Thing "a" is invalid: []',
        "reason": "Invalid",
        "details": {"name": "a", "kind": "Thing", "causes": causes},
        "code": 422,
    }

    error = explain_answer(422, body, Question("apply", "h"))

    assert type(error) is errors.InvalidError


def test_a_long_rejected_value_is_left_out_of_the_message() -> None:
    """The server repeats a whole pod template; the message keeps what is wrong with it."""
    error = explained("errors", "immutable Job template")

    assert error.message == 'Job.batch "plain" is invalid: spec.template: Invalid value: (…): field is immutable'


@pytest.mark.parametrize(
    "message",
    [
        'Secret "s" is invalid: data[a]: Invalid value: "hunter2hunter2": must be base64',
        "failed to create typed patch object (a/s; /v1, Kind=Secret): .data: expected map, got &{hunter2hunter2}",
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 3, error found in #10 byte of '
        '...|"a":"hunter2hunter2"|..., bigger context ...|{"data":{"a":"hunter2hunter2"}}|...',
    ],
)
@pytest.mark.parametrize("status", [400, 422, 500])
def test_no_value_of_a_secret_gets_into_an_error(message: str, status: int) -> None:
    """Whatever the server repeats of a Secret is hidden."""
    cause = {"reason": "FieldValueInvalid", "message": 'Invalid value: "hunter2hunter2": must be base64', "field": "data[a]"}
    body = {"message": message, "reason": "Invalid", "details": {"kind": "Secret", "causes": [cause]}, "code": status}

    error = explain_answer(status, body, Question("apply", "h", resource="secrets", sensitive=True))

    assert isinstance(error, errors.ApiError)
    assert "hunter2" not in f"{error} {error.hint} {error.causes} {error!r}"


def test_an_admission_webhook_is_named_whatever_status_it_chose() -> None:
    """A webhook's refusal is one of policy, with any status."""
    message = 'admission webhook "validate.policy.example" denied the request: labels are missing'
    for status in (400, 403, 422, 500):
        error = explain_answer(status, {"message": message, "code": status}, Question("apply", "h"))

        assert isinstance(error, errors.AdmissionDeniedError)
        assert error.admission == "validate.policy.example"
        assert "labels are missing" in error.message


@pytest.mark.parametrize(
    ("status", "reason", "message", "error_type"),
    [
        (500, "InternalError", "Internal error occurred: etcdserver: leader changed", errors.UnavailableError),
        (500, "InternalError", "Internal error occurred: resource quota evaluation timed out", errors.InternalServerError),
        (500, "ServerTimeout", "the server was unable to return a response in time", errors.ServerTimeoutError),
        (503, "ServiceUnavailable", "the server is currently unable to handle the request", errors.UnavailableError),
        (429, "TooManyRequests", "Too many requests, please try again later.", errors.TooManyRequestsError),
        (410, "Expired", "The provided continue parameter is too old", errors.ExpiredError),
        (
            403,
            "Forbidden",
            'roles "r" is forbidden: user "u" is attempting to grant RBAC permissions not currently held',
            errors.EscalationError,
        ),
        (
            500,
            "InternalError",
            "conversion webhook for example.com/v1, Kind=Widget failed: no endpoints available",
            errors.WebhookUnreachableError,
        ),
        (409, "Conflict", 'Operation cannot be fulfilled on things "a": StorageError: something else', errors.ConflictError),
        (405, "MethodNotAllowed", "the server does not allow this method on the requested resource", errors.ApiError),
    ],
)
def test_answers_that_were_not_recorded(status: int, reason: str, message: str, error_type: type[errors.ClusterError]) -> None:
    """Words of kube-apiserver's source that the recordings don't happen to hold."""
    error = explain_answer(status, {"message": message, "reason": reason, "code": status}, Question("apply", "h"))

    assert type(error) is error_type


def test_the_wait_that_a_status_asks_for_is_kept() -> None:
    """`details.retryAfterSeconds` counts where there is no header; a header wins."""
    body = {"message": "slow down", "reason": "TooManyRequests", "details": {"retryAfterSeconds": 3}, "code": 429}

    assert explain_answer(429, body, Question("get", "h")).retry_after == 3.0
    assert explain_answer(429, body, Question("get", "h"), 7.0).retry_after == 7.0


def test_words_are_not_lost_to_elision() -> None:
    """Short values stay readable."""
    error = explained("errors", "node port taken")

    assert re.search(r"spec\.ports\[0\]\.nodePort: Invalid value: 30080: provided port is already allocated", error.message)
