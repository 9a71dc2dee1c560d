"""The parameters of a write: dry run, field manager, field validation, force (apimachinery `ValidateCreateOptions` and its like)."""

from collections.abc import Mapping

from delegate.simulator import statuses
from delegate.simulator.requests import RequestInfo, truthy
from delegate.simulator.storing import Options

LONGEST_MANAGER = 128
_KINDS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


def read(info: RequestInfo, query: Mapping[str, str], user_agent: str, user: str, *, applies: bool) -> Options:
    """Raises a 422 for what makes no sense; `applies` says that the request is a server-side apply, which needs a manager."""
    causes = _causes(query)
    manager = query.get("fieldManager", "")
    force = "force" in query and info.verb == "patch"
    if applies and not manager:
        causes.append(statuses.required("fieldManager", "is required for apply patch"))
    if force and not applies:
        causes.append(statuses.forbidden_value("force", "may not be specified for non-apply patch"))
    if causes:
        raise statuses.invalid(_KINDS.get(info.verb, ""), "meta.k8s.io", "", causes)
    return Options(
        manager=manager or user_agent.partition("/")[0][:LONGEST_MANAGER] or "unknown",
        force=force and truthy(query["force"]),
        dry_run=bool(query.get("dryRun")),
        validation=query.get("fieldValidation") or "Warn",
        subresource=info.subresource,
        user=user,
    )


def _causes(query: Mapping[str, str]) -> list[statuses.Cause]:
    causes = []
    manager, dry_run, validation = query.get("fieldManager", ""), query.get("dryRun", ""), query.get("fieldValidation", "")
    if dry_run not in ("", "All"):
        causes.append(statuses.unsupported("dryRun", [dry_run], ("All",)))
    if len(manager.encode()) > LONGEST_MANAGER:
        why = f"may not be more than {LONGEST_MANAGER} bytes"
        causes.append(statuses.Cause("FieldValueTooLong", f"Too long: {why}", "fieldManager"))
    odd = next((at for at, letter in enumerate(manager) if not letter.isprintable()), None)
    if odd is not None:
        why = f"invalid character U+{ord(manager[odd]):04X} (at position {odd})"
        causes.append(statuses.invalid_value("fieldManager", manager, why))
    if validation not in _VALIDATIONS:
        causes.append(statuses.unsupported("fieldValidation", validation, _VALIDATIONS))
    return causes
