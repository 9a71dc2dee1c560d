"""Which objects a selective sync is about."""

import pytest

from delegate.model.resources import ResourceKey
from delegate.model.selection import read_selection

WEB = ResourceKey("apps", "Deployment", "shop", "web")
SETTINGS = ResourceKey("", "ConfigMap", "shop", "settings")
ROLE = ResourceKey("rbac.authorization.k8s.io", "ClusterRole", "", "reader")


@pytest.mark.parametrize(
    ("texts", "selected"),
    [
        ([], {WEB, SETTINGS, ROLE}),
        (["apps:Deployment:web"], {WEB}),
        (["apps:Deployment:shop/web"], {WEB}),
        (["apps:Deployment:other/web"], set()),
        ([":ConfigMap:settings"], {SETTINGS}),
        (["apps/Deployment shop/web"], {WEB}),
        (["ConfigMap shop/settings"], {SETTINGS}),
        (["rbac.authorization.k8s.io/ClusterRole reader"], {ROLE}),
        (["*:*:*"], {WEB, SETTINGS, ROLE}),
        (["!apps:Deployment:*"], {SETTINGS, ROLE}),
        (["*:*:shop/*", "!:ConfigMap:*"], {WEB}),
    ],
)
def test_objects_are_selected_by_patterns(texts: list[str], selected: set[ResourceKey]) -> None:
    """As Argo CD writes them, or as results show objects; what is left out wins."""
    selection = read_selection(texts)
    assert {key for key in (WEB, SETTINGS, ROLE) if key in selection} == selected


@pytest.mark.parametrize("text", ["web", "apps:Deployment", "a:b:c:d", ""])
def test_what_names_no_object_is_refused(text: str) -> None:
    """The refusal shows how an object is named."""
    with pytest.raises(ValueError, match="apps:Deployment:shop/web"):
        read_selection([text])


def test_patterns_that_match_nothing_are_told() -> None:
    """A slip in a name must not look like work well done."""
    selection = read_selection(["apps:Deployment:web", "apps:Deployment:wev"])
    assert [pattern.name for pattern in selection.unmatched([WEB, SETTINGS])] == ["wev"]
