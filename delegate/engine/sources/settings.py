"""What may differ from place to place about sources: where the renderers are, and what is written of repositories."""

from pathlib import Path

import msgspec

from delegate.engine.sources.jails.running import RenderLimits


class RenderSettings(msgspec.Struct, frozen=True):
    """`helm` and `kubectl` are names on PATH or paths; a kustomize program may stand in for kubectl.

    `repositories_dir` holds Secrets and ConfigMaps of repositories in Argo CD's format (see `access.books`).
    """

    helm: str = "helm"
    kubectl: str = "kubectl"
    repositories_dir: Path | None = None
    limits: RenderLimits = RenderLimits()
