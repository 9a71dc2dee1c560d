"""What may differ from place to place about sources: where the renderers are, and what is written of repositories."""

from pathlib import Path
from typing import Self

import msgspec

from delegate.engine.sources.jails.running import RenderLimits
from delegate.foundation.settings.sections import Sources


class RenderSettings(msgspec.Struct, frozen=True):
    """`helm` and `kubectl` are names on PATH or paths; a kustomize program may stand in for kubectl.

    `repositories_dir` holds Secrets and ConfigMaps of repositories in Argo CD's format (see `access.books`), and so does a
    namespace of the delegate's own cluster. `git_author` (`Name <email>`) signs what is written into repositories, `forges` say which
    kind of forge a host is (`git.example=gitlab`). `git_submodules` has submodules fetched where a source doesn't say otherwise.
    """

    helm: str = "helm"
    kubectl: str = "kubectl"
    repositories_dir: Path | None = None
    repositories_namespace: str = ""
    git_author: str = ""
    forges: tuple[str, ...] = ()
    git_submodules: bool = False
    limits: RenderLimits = RenderLimits()

    @classmethod
    def from_settings(cls, section: Sources) -> Self:
        return cls(
            section.helm,
            section.kubectl,
            section.repositories_dir,
            section.repositories_namespace,
            git_author=section.git_author,
            forges=section.forges,
            git_submodules=section.git_submodules,
        )
