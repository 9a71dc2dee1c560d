"""What git's complaints mean, from the words of several versions of git, libcurl and OpenSSH."""

import pytest

from delegate.engine.sources import errors
from delegate.engine.sources.git.faults import classify, excerpt, is_corrupt
from delegate.engine.sources.git.settings import Login
from delegate.engine.sources.git.signatures import read_answer
from delegate.engine.sources.git.urls import parse_url
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.secrets import Secret

HTTPS = parse_url("https://git.example/team/app.git")
SSH = parse_url("git@git.example:team/app.git")
ANONYMOUS, KNOWN = Login(), Login("ada", Secret("geheim42"))


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("fatal: unable to access 'https://x/': Could not resolve host: x", errors.HostUnreachableError),
        (
            "fatal: unable to access 'https://x/': Failed to connect to x port 443 after 3 ms: Couldn't connect to server",
            errors.HostUnreachableError,
        ),
        ("fatal: unable to access 'https://x/': Recv failure: Connection reset by peer", errors.HostUnreachableError),
        (
            "error: RPC failed; curl 28 Operation too slow. Less than 1000 bytes/sec transferred the last 30 seconds",
            errors.HostUnreachableError,
        ),
        ("fatal: unable to access 'https://x/': Received HTTP code 407 from proxy after CONNECT", errors.HostUnreachableError),
        ("fatal: unable to access 'https://x/': Could not resolve proxy: proxy.example", errors.HostUnreachableError),
        (
            "ssh: connect to host x port 22: Connection timed out\nfatal: Could not read from remote repository.",
            errors.HostUnreachableError,
        ),
        ("ssh: Could not resolve hostname x: Name or service not known", errors.HostUnreachableError),
        ("fatal: unable to access 'https://x/': SSL certificate problem: unable to get local issuer certificate", errors.CertificateError),
        (
            "fatal: unable to access 'https://x/': server certificate verification failed. CAfile: none CRLfile: none",
            errors.CertificateError,
        ),
        ("fatal: ...: SSL: no alternative certificate subject name matches target host name 'x'", errors.CertificateError),
        (
            "fatal: unable to access 'https://x/': gnutls_handshake() failed: The TLS connection was non-properly terminated.",
            errors.CertificateError,
        ),
        ("No ED25519 host key is known for x and you have requested strict checking.\nHost key verification failed.", errors.HostKeyError),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", errors.HostKeyError),
        ("git@x: Permission denied (publickey).\nfatal: Could not read from remote repository.", errors.AuthenticationError),
        ("fatal: Authentication failed for 'https://x/'", errors.AuthenticationError),
        ("fatal: could not read Username for 'https://x': terminal prompts disabled", errors.AuthenticationError),
        ("remote: HTTP Basic: Access denied\nfatal: Authentication failed for 'https://x/'", errors.AuthenticationError),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 403", errors.AuthenticationError),
        ("remote: Repository not found.\nfatal: repository 'https://x/' not found", errors.RepositoryNotFoundError),
        ("ERROR: Repository not found.\nfatal: Could not read from remote repository.", errors.RepositoryNotFoundError),
        ("fatal: '/x.git' does not appear to be a git repository", errors.RepositoryNotFoundError),
        ("fatal: https://x/info/refs not valid: is this a git repository?", errors.RepositoryNotFoundError),
        ("fatal: remote error: upload-pack: not our ref 0123", errors.RevisionNotFoundError),
        ("error: Server does not allow request for unadvertised object 0123", errors.RevisionNotFoundError),
        ("fatal: couldn't find remote ref refs/heads/x", errors.RevisionNotFoundError),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 503", errors.TransferError),
        ("fatal: the remote end hung up unexpectedly\nfatal: early EOF\nfatal: index-pack failed", errors.TransferError),
        ("error: RPC failed; HTTP 200 curl 18 transfer closed with outstanding read data remaining", errors.TransferError),
        ("error: object 01: missingTree\nfatal: fsck error in packed object", errors.CorruptRepositoryError),
        ("fatal: write error: No space left on device\nfatal: index-pack failed", errors.CacheDirectoryError),
        ("error: could not lock config file x: Read-only file system", errors.CacheDirectoryError),
        ("fatal: something that nobody has seen yet", errors.UnexpectedGitError),
        ("", errors.UnexpectedGitError),
    ],
)
def test_complaints_become_errors(stderr: str, kind: type[Exception]) -> None:
    """Each names the thing and, where there is one, the remedy."""
    error = classify(stderr, HTTPS, ANONYMOUS, "/cache/x.git")

    assert type(error) is kind
    assert "git.example" in error.message or "/cache" in error.message


def test_a_login_that_is_missing_is_told_from_one_that_is_refused() -> None:
    """The remedies differ."""
    words = "fatal: Authentication failed for 'https://x/'"

    assert "none are set for it" in classify(words, HTTPS, ANONYMOUS, "").message
    assert "refuses the credentials of ada" in classify(words, HTTPS, KNOWN, "").message
    assert classify("git@x: Permission denied (publickey).", SSH, ANONYMOUS, "").hint.startswith("set an SSH key")


def test_a_user_without_a_passwd_entry_is_told_what_to_install() -> None:
    """And not that an address or its credentials are wrong; of a signature too."""
    words = "No user exists for uid 1000710000\nfatal: Could not read from remote repository."

    error = classify(words, SSH, KNOWN, "")

    assert "ssh refuses to work for a user without a passwd entry" in error.message
    assert "install libnss-wrapper" in error.hint
    assert "install libnss-wrapper" in read_answer(words)[1]


def test_what_the_other_end_says_is_not_our_fault() -> None:
    """Corruption over there doesn't cost us the mirror."""
    assert is_corrupt("error: object file objects/aa/bb is empty")
    assert not is_corrupt("remote: fatal: bad object 01\nfatal: early EOF")


def test_excerpts_are_short_and_hold_no_secret() -> None:
    """Progress and advice are left out."""
    KNOWN_SECRETS.add("geheim42")
    try:
        text = excerpt("Cloning...\nhint: try again\nfatal: https://ada:other99@x/ and geheim42 " + "x" * 1000)
    finally:
        KNOWN_SECRETS.discard("geheim42")

    assert text.startswith("fatal: ")
    assert len(text) == 300
    assert "geheim42" not in text
    assert "other99" not in text
