"""Faults of manifests and of what is kept in the cluster, as the pure rules of the model find them.

DelegateError
 └── ManifestError            input, names file, line and object
      ├── AnnotationError         an annotation of ours that can't be meant
      ├── DuplicateObjectError    one identity, written twice
      ├── DuplicateEntryError     one key, twice in a list that the server keys
      ├── MissingNamespaceError   a namespaced object with no namespace to go to
      ├── SecretDataError         Secret data that is no base64 or no text; never shows a value
      └── UnknownKindError        neither the cluster nor a definition of the set knows the kind
 ├── UnavailableGroupError    the cluster can't tell at the moment what a group serves
 └── InventoryError           what is kept of an Application in the cluster
      ├── CorruptInventoryError
      ├── ForeignInventoryError   the record belongs to another tool
      ├── InventoryTooLargeError
      ├── NoReleaseError          nothing recorded that a rollback could mean
      ├── RolledBackAlreadyError  what runs was put back before; further back goes nobody unasked
      ├── ReleaseBusyError        somebody is at work on it, or was when they died
      └── CorruptReleaseError     a release that can't be read, or is not as it was written
"""

from collections.abc import Sequence
from typing import ClassVar

from delegate.foundation.errors import Category, DelegateError, ErrorGroup
from delegate.model.resources import Manifest


class ManifestError(DelegateError):
    """A manifest that can't be applied as it is written. Nothing was done."""

    default_code = "input.manifest"
    category = Category.INPUT


class AnnotationError(ManifestError):
    default_code = "input.annotation"


class DuplicateObjectError(ManifestError):
    default_code = "input.duplicate_object"


class DuplicateEntryError(ManifestError):
    default_code = "input.duplicate_entry"


class MissingNamespaceError(ManifestError):
    default_code = "input.missing_namespace"


class SecretDataError(ManifestError):
    default_code = "input.secret_data"


class SchemaMismatchError(ManifestError):
    default_code = "input.schema"


class UnknownKindError(ManifestError):
    default_code = "input.unknown_kind"


class UnavailableGroupError(DelegateError):
    """A group whose discovery fails right now; its objects wait, the others don't."""

    default_code = "dependency.api_group"
    category = Category.DEPENDENCY
    default_retryable: ClassVar[bool] = True


class InventoryError(DelegateError):
    default_code = "conflict.inventory"
    category = Category.CONFLICT


class CorruptInventoryError(InventoryError):
    default_code = "conflict.inventory_corrupt"


class ForeignInventoryError(InventoryError):
    default_code = "conflict.inventory_foreign"


class InventoryTooLargeError(InventoryError):
    default_code = "input.inventory_too_large"
    category = Category.INPUT


class NoReleaseError(InventoryError):
    default_code = "input.no_release"
    category = Category.INPUT


class RolledBackAlreadyError(InventoryError):
    default_code = "policy.rolled_back_already"
    category = Category.POLICY


class ReleaseBusyError(InventoryError):
    default_code = "conflict.release_busy"
    category = Category.CONFLICT


class CorruptReleaseError(InventoryError):
    default_code = "conflict.release_corrupt"


def raise_all(errors: Sequence[DelegateError]) -> None:
    """Raises the faults of a set together, in the order they were found; does nothing where there is none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ErrorGroup(list(errors))


def located(error_class: type[ManifestError], manifest: Manifest, message: str, hint: str = "") -> ManifestError:
    """A fault of one manifest, with its place and its object."""
    return error_class(
        message,
        hint=hint,
        file=manifest.origin.file,
        line=manifest.origin.line or None,
        object=str(manifest.key),
    )
