"""What the API shows of certificates, authorities, and the keys of clusters. camelCase on the wire, times in RFC 3339."""

from delegate.manager.views import View


class CertificateView(View, frozen=True, kw_only=True):
    """`state`: issued (not shown yet), current, replaced (a newer one is in use), expired, revoked. Fingerprints are SHA-256 in hex."""

    serial: str
    delegate: str
    state: str
    fingerprint: str
    key_fingerprint: str
    issued_at: str
    begins_at: str
    ends_at: str
    first_used_at: str = ""


class CertificateList(View, frozen=True, kw_only=True):
    items: tuple[CertificateView, ...]


class RevocationView(View, frozen=True, kw_only=True):
    """`kind` is serial, key or certificate."""

    kind: str
    value: str
    revoked_at: str
    revoked_by: str
    reason: str = ""


class RevocationList(View, frozen=True, kw_only=True):
    items: tuple[RevocationView, ...]


class AuthorityView(View, frozen=True, kw_only=True):
    """`state`: signing, announced (believed, and signs from `signsFrom` on), earlier (believed for what it has signed)."""

    id: str
    state: str
    fingerprint: str
    certificate: str
    signs_from: str = ""
    ends_at: str


class AuthorityList(View, frozen=True, kw_only=True):
    items: tuple[AuthorityView, ...]


class ClusterKeysView(View, frozen=True, kw_only=True):
    """`uses` counts delegates that enrolled so."""

    cluster: str
    issuer: str
    audience: str
    service_accounts: tuple[str, ...]
    key_ids: tuple[str, ...]
    scopes: tuple[str, ...]
    labels: dict[str, str] = {}
    uses: int = 0
    last_used_at: str = ""
    updated_at: str


class ClusterKeysList(View, frozen=True, kw_only=True):
    items: tuple[ClusterKeysView, ...]
