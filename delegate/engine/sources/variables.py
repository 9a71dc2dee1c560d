"""Argo CD's build environment: the few names that an Application's options may mention, as `$NAME` or `${NAME}`. Pure."""

import re
from collections.abc import Mapping

from delegate.model.sources import Source

_NAME = re.compile(r"\$(?:\$|\{([^}]*)\}|([A-Za-z0-9_]+))")
_SHORT, _SHORTER = 8, 7


def variables_of(source: Source, *, application: str, namespace: str, revision: str, project: str = "") -> dict[str, str]:
    """The names and values for one source of an Application at a revision."""
    return {
        "ARGOCD_APP_NAME": application,
        "ARGOCD_APP_NAMESPACE": namespace,
        "ARGOCD_APP_PROJECT_NAME": project,
        "ARGOCD_APP_REVISION": revision,
        "ARGOCD_APP_REVISION_SHORT": revision[:_SHORTER],
        "ARGOCD_APP_REVISION_SHORT_8": revision[:_SHORT],
        "ARGOCD_APP_SOURCE_REPO_URL": source.repo_url,
        "ARGOCD_APP_SOURCE_PATH": source.path,
        "ARGOCD_APP_SOURCE_TARGET_REVISION": source.target_revision,
    }


def substitute(text: str, values: Mapping[str, str]) -> str:
    """`$$` is a dollar sign, and a name that nobody knows is empty, as in Argo CD."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else values.get(match[1] or match[2] or "", "")

    return _NAME.sub(value, text)
