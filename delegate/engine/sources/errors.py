"""Faults of bringing manifests in.

DelegateError
 ├── ManifestError (model)        a file's content: input, names file and line
 │    ├── EncodingError               bytes that are no UTF-8
 │    ├── SyntaxFaultError            neither YAML nor JSON
 │    ├── DuplicateKeyError           one key twice in a mapping
 │    ├── KeyTypeError                a mapping key that is no string
 │    ├── ScalarError                 a number that JSON or 64 bits can't hold
 │    ├── TagError                    a tag that has no meaning here
 │    ├── IncompleteObjectError       no apiVersion, kind or name
 │    ├── FieldTypeError              a field of the wrong type
 │    ├── ForeignDocumentError        a kustomization, a chart, a pointer to a file elsewhere
 │    └── TooLargeError               a file, an expansion or an object past its limit
 ├── SourceError                  where the files come from
 │    ├── PathNotFoundError
 │    ├── NoManifestsError
 │    ├── UnreadableFileError
 │    ├── LinkError                   a symbolic link that leads out of the source, or nowhere
 │    │    └── OutsideSourceError         a path, written out, that does
 │    ├── SourceTooLargeError
 │    ├── SubmoduleError
 │    ├── LocalSourceError            a local path where none is allowed
 │    ├── CacheDirectoryError         the mirror can't be written
 │    ├── SourceTimeoutError
 │    └── RenderError                 kustomizations and charts
 │         ├── KustomizationError        one that can't be meant, or wants what is not in its repository
 │         ├── RemoteBaseError           policy: a base that would be fetched
 │         ├── ChartError                a chart, its values or its parameters
 │         ├── ChartDependencyError      a chart that another one needs and that is not here
 │         ├── RenderFailedError         in the renderer's own words
 │         ├── RenderLimitError          more memory, time of the processor or output than it may have
 │         ├── RenderTimeoutError
 │         └── JailError                 the renderer can't be shut in
 ├── GitError
 │    ├── RepositoryUrlError
 │    ├── RepositoryNotFoundError
 │    ├── AuthenticationError         permission
 │    ├── HostKeyError
 │    ├── CertificateError
 │    ├── RevisionNotFoundError
 │    ├── AmbiguousRevisionError
 │    ├── SignatureError              policy: not signed as it has to be
 │    ├── LargeFileError              what Git LFS keeps can't be had, or is something else
 │    ├── HostUnreachableError        retryable
 │    ├── TransferError               retryable
 │    ├── GitTimeoutError             retryable
 │    ├── CorruptRepositoryError
 │    └── UnexpectedGitError
 ├── AccessError                  a repository's Secret that can't be used: input
 ├── FetchError                   what is fetched over HTTP: charts, registries, tokens
 │    ├── FetchUrlError               input
 │    ├── FetchAuthenticationError    permission
 │    ├── FetchCertificateError
 │    ├── FetchUnreachableError       retryable
 │    ├── FetchTransferError          retryable: broken off, or "not now"
 │    ├── FetchTimeoutError           retryable
 │    ├── UnexpectedAnswerError       too large, in circles, or no such thing as was asked for
 │    ├── ChartNotFoundError          input: no such chart or version
 │    └── ChartDigestError            what came is not what the repository promised
 └── CommandError                 a child process
      ├── CommandNotFoundError
      ├── CommandTimeoutError
      └── CommandOutputError
"""

from typing import ClassVar

from delegate.foundation.errors import Category, DelegateError
from delegate.model.errors import ManifestError


class EncodingError(ManifestError):
    default_code = "input.encoding"


class SyntaxFaultError(ManifestError):
    default_code = "input.syntax"


class DuplicateKeyError(ManifestError):
    default_code = "input.duplicate_key"


class KeyTypeError(ManifestError):
    default_code = "input.key_type"


class ScalarError(ManifestError):
    default_code = "input.scalar"


class TagError(ManifestError):
    default_code = "input.tag"


class IncompleteObjectError(ManifestError):
    default_code = "input.incomplete_object"


class FieldTypeError(ManifestError):
    default_code = "input.field_type"


class ForeignDocumentError(ManifestError):
    default_code = "input.foreign_document"


class TooLargeError(ManifestError):
    default_code = "input.too_large"


class SourceError(DelegateError):
    default_code = "input.source"
    category = Category.INPUT


class PathNotFoundError(SourceError):
    default_code = "input.path_not_found"


class NoManifestsError(SourceError):
    default_code = "input.no_manifests"


class UnreadableFileError(SourceError):
    default_code = "permission.unreadable_file"
    category = Category.PERMISSION


class LinkError(SourceError):
    default_code = "input.link"


class OutsideSourceError(LinkError):
    """A path, written out, that leads above the source."""


class SourceTooLargeError(SourceError):
    default_code = "input.source_too_large"


class SubmoduleError(SourceError):
    default_code = "input.submodule"


class LocalSourceError(SourceError):
    default_code = "policy.local_source"
    category = Category.POLICY


class CacheDirectoryError(SourceError):
    default_code = "internal.cache_directory"
    category = Category.INTERNAL


class SourceTimeoutError(SourceError):
    default_code = "timeout.source"
    category = Category.TIMEOUT
    default_retryable: ClassVar[bool] = True


class RenderError(SourceError):
    """`renderer` is `helm` or `kustomize`, where it is known."""

    default_code = "input.render"
    renderer: str = ""


class KustomizationError(RenderError):
    default_code = "input.kustomization"
    renderer = "kustomize"


class RemoteBaseError(RenderError):
    default_code = "policy.remote_base"
    category = Category.POLICY
    renderer = "kustomize"


class ChartError(RenderError):
    default_code = "input.chart"
    renderer = "helm"


class ChartDependencyError(RenderError):
    default_code = "input.chart_dependency"
    renderer = "helm"


class RenderFailedError(RenderError):
    default_code = "input.render_failed"


class RenderLimitError(RenderError):
    default_code = "input.render_limit"


class RenderTimeoutError(RenderError):
    default_code = "timeout.render"
    category = Category.TIMEOUT
    default_retryable: ClassVar[bool] = True


class JailError(RenderError):
    default_code = "internal.jail"
    category = Category.INTERNAL


class GitError(DelegateError):
    """A fault of a repository or of the way to it."""

    default_code = "dependency.git"
    category = Category.DEPENDENCY


class RepositoryUrlError(GitError):
    default_code = "input.repository_url"
    category = Category.INPUT


class RepositoryNotFoundError(GitError):
    default_code = "input.repository_not_found"
    category = Category.INPUT


class AuthenticationError(GitError):
    default_code = "permission.git_authentication"
    category = Category.PERMISSION


class HostKeyError(GitError):
    default_code = "permission.git_host_key"
    category = Category.PERMISSION


class CertificateError(GitError):
    default_code = "dependency.git_certificate"


class RevisionNotFoundError(GitError):
    default_code = "input.revision_not_found"
    category = Category.INPUT


class AmbiguousRevisionError(GitError):
    default_code = "input.revision_ambiguous"
    category = Category.INPUT


class SignatureError(GitError):
    default_code = "policy.signature"
    category = Category.POLICY


class LargeFileError(GitError):
    default_code = "dependency.git_lfs"


class HostUnreachableError(GitError):
    default_code = "transient.git_unreachable"
    category = Category.TRANSIENT
    default_retryable: ClassVar[bool] = True


class TransferError(GitError):
    """The other side broke off, or answered that it can't right now."""

    default_code = "transient.git_transfer"
    category = Category.TRANSIENT
    default_retryable: ClassVar[bool] = True


class GitTimeoutError(GitError):
    default_code = "timeout.git"
    category = Category.TIMEOUT
    default_retryable: ClassVar[bool] = True


class CorruptRepositoryError(GitError):
    default_code = "dependency.git_corrupt"


class UnexpectedGitError(GitError):
    default_code = "dependency.git_failed"


class AccessError(DelegateError):
    default_code = "input.repository_secret"
    category = Category.INPUT


class FetchError(DelegateError):
    """A fault of fetching, or of the way there."""

    default_code = "dependency.fetch"
    category = Category.DEPENDENCY


class FetchUrlError(FetchError):
    default_code = "input.fetch_url"
    category = Category.INPUT


class FetchAuthenticationError(FetchError):
    default_code = "permission.fetch_authentication"
    category = Category.PERMISSION


class FetchCertificateError(FetchError):
    default_code = "dependency.fetch_certificate"


class FetchUnreachableError(FetchError):
    default_code = "transient.fetch_unreachable"
    category = Category.TRANSIENT
    default_retryable: ClassVar[bool] = True


class FetchTransferError(FetchError):
    default_code = "transient.fetch_transfer"
    category = Category.TRANSIENT
    default_retryable: ClassVar[bool] = True


class FetchTimeoutError(FetchError):
    default_code = "timeout.fetch"
    category = Category.TIMEOUT
    default_retryable: ClassVar[bool] = True


class UnexpectedAnswerError(FetchError):
    default_code = "dependency.unexpected_answer"


class ChartNotFoundError(FetchError):
    default_code = "input.chart_not_found"
    category = Category.INPUT


class ChartDigestError(FetchError):
    default_code = "dependency.chart_digest"


class CommandError(DelegateError):
    default_code = "internal.command"


class CommandNotFoundError(CommandError):
    default_code = "dependency.command_not_found"
    category = Category.DEPENDENCY


class CommandTimeoutError(CommandError):
    default_code = "timeout.command"
    category = Category.TIMEOUT
    default_retryable: ClassVar[bool] = True


class CommandOutputError(CommandError):
    """More output than the caller can take where all of it is needed."""

    default_code = "dependency.command_output"
    category = Category.DEPENDENCY


def metric_kind(error: DelegateError) -> str:
    """What `harness_delegate_source_errors_total` calls the fault: `git`, `helm`, `kustomize` or `decode`."""
    if isinstance(error, RenderError) and error.renderer:
        return error.renderer
    if isinstance(error, FetchError):
        return "helm"
    return "git" if isinstance(error, (GitError, CommandError, AccessError)) else "decode"
