"""What may differ from place to place about sources: where the renderers are."""

import msgspec

from delegate.engine.sources.jails.running import RenderLimits


class RenderSettings(msgspec.Struct, frozen=True):
    """`helm` and `kubectl` are names on PATH or paths; a kustomize program may stand in for kubectl."""

    helm: str = "helm"
    kubectl: str = "kubectl"
    limits: RenderLimits = RenderLimits()
