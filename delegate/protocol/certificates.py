"""Certificates of delegates on the wire.

`POST /certificates/renew` (bearer: the session token) gives a certificate for the key of a request (`csr`, PKCS #10 in PEM form). It is
called over the certificate that is valid now, by a delegate that has none yet, or with a proof: the `certificate` that was valid
before and a signature by its key (`pki.proofs`), also for some time after its end, unless it was revoked. The same request is answered
with the same certificate, so that an answer that got lost can be asked for again; and the old certificate stays good until the new
one is used. `GET /authorities` (no authorization) tells which authorities the manager's own certificates may be signed by.
"""

from delegate.protocol.messages import Answer, Request


class RenewRequest(Request, frozen=True, kw_only=True):
    """`life_seconds` is what is asked for; the manager may give less. `certificate` and `proof` come together or not at all."""

    delegate_id: str
    csr: str
    life_seconds: float | None = None
    certificate: str = ""
    proof: str = ""


class RenewAnswer(Answer, frozen=True, kw_only=True):
    """`certificate` is the chain, the leaf first; `authorities` whom to believe from now on, also the one that will sign next."""

    certificate: str
    authorities: str


class AuthoritiesAnswer(Answer, frozen=True, kw_only=True):
    """PEM. Whoever gets it unverified has to compare fingerprints before believing any of it."""

    authorities: str
