"""The refusals of the API server: Status bodies with code, reason, message and causes (apimachinery `errors`, `field`)."""

import json
from collections.abc import Sequence

import msgspec

from delegate.foundation.errors import Category, DelegateError
from delegate.model.resources import JsonObject

REASONS = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueRequired": "Required value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotFound": "Not found",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
}


class SimulatorError(DelegateError):
    """The root of this package's errors: `StatusError` is what a client is answered."""

    default_code = "simulator.failed"
    category = Category.INTERNAL


_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""What Go's encoder of JSON escapes."""


class Cause(msgspec.Struct, frozen=True):
    """One reason why an object or a patch was refused; `field` is a path."""

    reason: str
    message: str
    field: str = ""

    def body(self) -> JsonObject:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class StatusError(SimulatorError):
    """An answer with a `Status` body, or with plain text where the real server has no Status (unknown paths)."""

    default_code = "simulator.refused"

    def __init__(
        self,
        status: int,
        message: str,
        *,
        reason: str = "",
        details: JsonObject | None = None,
        plain: bool = False,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.details = details
        self.plain = plain
        self.headers = headers or {}
        self.warnings: list[str] = []
        """What the client is warned of besides (Warning headers)."""
        self.metadata: JsonObject = {}

    def body(self) -> JsonObject:
        body: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure", "message": self.message}
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.status
        return body


def details(name: str, group: str, kind: str, **more: object) -> JsonObject:
    """What `details` names an object by; empty members are left out, as the real server does."""
    named = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in named.items() if value} | more


def qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def bad_request(message: str) -> StatusError:
    return StatusError(400, message, reason="BadRequest")


def internal(message: str) -> StatusError:
    """A 500 without a reason, as server-side apply answers what it can't type."""
    return StatusError(500, message)


def page_not_found() -> StatusError:
    return StatusError(404, "404 page not found\n", plain=True)


def not_found(plural: str, group: str, name: str) -> StatusError:
    return StatusError(404, f'{qualified(plural, group)} "{name}" not found', reason="NotFound", details=details(name, group, plural))


def already_exists(plural: str, group: str, name: str) -> StatusError:
    message = f'{qualified(plural, group)} "{name}" already exists'
    return StatusError(409, message, reason="AlreadyExists", details=details(name, group, plural))


def conflict(plural: str, group: str, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return StatusError(409, message, reason="Conflict", details=details(name, group, plural))


def modified(plural: str, group: str, name: str) -> StatusError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(plural, group, name, why)


def forbidden(plural: str, group: str, name: str, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    subject = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    more = {"causes": [cause.body() for cause in causes]} if causes else {}
    return StatusError(403, f"{subject} is forbidden: {why}", reason="Forbidden", details=details(name, group, plural, **more))


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", reason="Unauthorized")


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, message, reason="MethodNotAllowed", details={})


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422 with every cause; several are put in brackets, as `field.ErrorList` aggregates them: what is said twice only once."""
    group = "" if kind == "Event" else group
    unique = list(dict.fromkeys(causes))
    parts = [f"{cause.field}: {cause.message}" for cause in unique]
    text = parts[0] if len(parts) == 1 else "[" + ", ".join(parts) + "]"
    return StatusError(
        422,
        f'{qualified(kind, group)} "{name}" is invalid: {text}',
        reason="Invalid",
        details=details(name, group, kind, causes=[cause.body() for cause in causes]),
    )


def expired(message: str, **metadata: str) -> StatusError:
    error = StatusError(410, message, reason="Expired")
    error.metadata = metadata
    return error


def shown(value: object) -> str:
    """A value inside a message, as `field.Error` prints it: strings quoted, objects as JSON."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.translate(_ESCAPED) if isinstance(value, dict | list) else text


def cause(reason: str, path: str, detail: str = "", value: object = ...) -> Cause:
    """A cause in the wording of apimachinery's `field.Error`."""
    text = REASONS[reason]
    if value is not ...:
        text = f"{text}: {shown(value)}"
    return Cause(reason, f"{text}: {detail}" if detail else text, path)


def invalid_value(path: str, value: object, detail: str) -> Cause:
    return cause("FieldValueInvalid", path, detail, value)


def required(path: str, detail: str = "") -> Cause:
    return cause("FieldValueRequired", path, detail)


def forbidden_value(path: str, detail: str) -> Cause:
    return cause("FieldValueForbidden", path, detail)


def unsupported(path: str, value: object, supported: Sequence[str]) -> Cause:
    named = ", ".join(f'"{item}"' for item in supported)
    return cause("FieldValueNotSupported", path, f"supported values: {named}", value)


def too_long(path: str, limit: int) -> Cause:
    return cause("FieldValueTooLong", path, f"may not be more than {limit} bytes")


def duplicate(path: str, value: object) -> Cause:
    return cause("FieldValueDuplicate", path, "", value)
