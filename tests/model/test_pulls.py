"""Why an image can't be pulled, from the words of container runtimes and registries."""

import pytest

from delegate.model.health.pulls import PullFault, explain_pull, registry_of

_IMAGE = "registry.test/team/app:2"
_PREFIX = f'failed to pull and unpack image "{_IMAGE}": failed to resolve reference "{_IMAGE}": '


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (f"rpc error: code = NotFound desc = {_PREFIX}{_IMAGE}: not found", PullFault.NO_SUCH_IMAGE),
        ("manifest for registry.test/team/app:2 not found: manifest unknown", PullFault.NO_SUCH_IMAGE),
        (f"{_PREFIX}unexpected status from HEAD request to https://registry.test/v2/: 401 Unauthorized", PullFault.UNAUTHORIZED),
        (
            "pull access denied, repository does not exist or may require authorization: insufficient_scope: authorization failed",
            PullFault.UNAUTHORIZED,
        ),
        (
            f"{_PREFIX}failed to do request: tls: x509: certificate signed by unknown authority",
            PullFault.UNTRUSTED,
        ),
        (f"{_PREFIX}failed to do request: dial tcp: lookup registry.test: no such host", PullFault.UNREACHABLE),
        ("toomanyrequests: You have reached your pull rate limit", PullFault.RATE_LIMITED),
        ('Failed to apply default image tag "A b": couldn\'t parse image name: invalid reference format', PullFault.INVALID_NAME),
        ("Back-off pulling image", PullFault.UNKNOWN),
    ],
)
def test_faults(words: str, fault: PullFault) -> None:
    """Each answer is told apart, and each hint names the registry or the image."""
    explanation = explain_pull(_IMAGE, [words])

    assert explanation.fault is fault
    assert "registry.test" in explanation.hint


def test_a_missing_secret_explains_a_refusal_but_not_a_bad_certificate() -> None:
    """The secret that the namespace lacks comes first where it may be the cause."""
    refused = explain_pull(_IMAGE, ["401 Unauthorized"], namespace="shop", pull_secrets=["regcred"], missing_secrets=["regcred"])
    untrusted = explain_pull(_IMAGE, ["x509: certificate has expired"], namespace="shop", missing_secrets=["regcred"])

    assert refused.fault is PullFault.NO_SECRET
    assert refused.hint == "create the image pull secret regcred in namespace shop"
    assert untrusted.fault is PullFault.UNTRUSTED


def test_the_name_of_an_image_is_no_sign() -> None:
    """A repository may be called after an error; a short name must not eat the signs."""
    assert explain_pull("registry.test/x509:401", ["Back-off pulling image registry.test/x509:401"]).fault is PullFault.UNKNOWN
    assert explain_pull("x", ["x509: certificate signed by unknown authority"]).fault is PullFault.UNTRUSTED


@pytest.mark.parametrize(
    ("image", "registry"),
    [("nginx", "docker.io"), ("team/app:1", "docker.io"), ("localhost/app", "localhost"), ("r.test:5000/a", "r.test:5000")],
)
def test_registries(image: str, registry: str) -> None:
    """The first part is a host where it has a dot, a port, or is localhost."""
    assert registry_of(image) == registry
