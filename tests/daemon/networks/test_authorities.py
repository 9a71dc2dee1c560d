"""Private authorities: beside the system's, in every form that people write them in, and exchanged behind us."""

import asyncio
import datetime as dt
import os
import ssl
import subprocess
from pathlib import Path

import pytest
import trustme

from delegate.cli.environments import child_environment
from delegate.daemon.connection.contexts import Contexts
from delegate.daemon.connection.errors import UntrustedError
from delegate.daemon.connection.transport import Endpoint, Limits, Transport
from delegate.daemon.connection.trust import AuthoritiesError, tls_context
from delegate.foundation.authorities import child_bundle, system_bundle, write_bundle
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.loading import load
from delegate.foundation.settings.programs import LocalSettings
from delegate.protocol import routes
from delegate.protocol.enrolment import ByeAnswer, ByeRequest
from tests.daemon.networks.servers import tls_manager

LIMITS = Limits(connect=10.0, stall=10.0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


async def call(transport: Transport) -> None:
    await transport.call(routes.BYE, ByeRequest(request_id="r", epoch=1), ByeAnswer, token=Secret("t"))


async def believes(context: ssl.SSLContext, authority: trustme.CA) -> bool:
    """Whether a manager by a certificate of the authority is believed."""
    async with tls_manager(authority) as manager:
        transport = Transport(Endpoint(join=lambda path: manager.url + path, tls=context), limits=LIMITS)
        try:
            await call(transport)
        except UntrustedError:
            return False
        finally:
            await transport.close()
    return True


def expired() -> bytes:
    return trustme.CA().cert_pem.bytes()


def test_a_bundle_may_hold_comments_and_the_line_ends_of_others(tmp_path: Path, authority: trustme.CA) -> None:
    """Case 29: text between certificates, CRLF, and further authorities among them."""
    text = (
        b"# our authority, \xc3\xa9t\xc3\xa9\r\n\r\n"
        + authority.cert_pem.bytes().replace(b"\n", b"\r\n")
        + b"\r\n# another\r\n"
        + expired()
    )
    (tmp_path / "bundle.pem").write_bytes(text)

    assert asyncio.run(believes(tls_context(tmp_path / "bundle.pem"), authority))


def test_an_expired_namesake_takes_nothing_from_a_good_authority(tmp_path: Path) -> None:
    """Case 29: one expired certificate of the same name and key beside the one that holds."""
    good = trustme.CA(organization_name="Example", organization_unit_name="Authority")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    certificate = x509.load_pem_x509_certificate(good.cert_pem.bytes())
    key = serialization.load_pem_private_key(good.private_key_pem.bytes(), None)
    past = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(certificate.subject)
        .issuer_name(certificate.issuer)
        .public_key(certificate.public_key())
        .serial_number(7)
        .not_valid_before(past)
        .not_valid_after(past + dt.timedelta(days=1))
    )
    for extension in certificate.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    old = builder.sign(key, hashes.SHA256())  # type: ignore[arg-type]
    (tmp_path / "bundle.pem").write_bytes(old.public_bytes(serialization.Encoding.PEM) + good.cert_pem.bytes())

    assert asyncio.run(believes(tls_context(tmp_path / "bundle.pem"), good))


def test_a_bundle_may_be_a_directory_one_file_of_which_is_broken(tmp_path: Path, authority: trustme.CA) -> None:
    """Case 29: as a ConfigMap is mounted; what is hidden or no certificate is passed over."""
    (tmp_path / "..data").mkdir()
    authority.cert_pem.write_to_path(tmp_path / "..data" / "ours.crt")
    (tmp_path / "ours.crt").symlink_to("..data/ours.crt")
    (tmp_path / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nnonsense\n")
    (tmp_path / "README").write_text("who is believed")

    assert asyncio.run(believes(tls_context(tmp_path), authority))


@pytest.mark.parametrize("name", ["empty.pem", "empty-directory", "gone.pem"])
def test_a_bundle_without_certificates_stops_the_start_with_its_path(tmp_path: Path, name: str) -> None:
    """Case 29."""
    (tmp_path / "empty.pem").touch()
    (tmp_path / "empty-directory").mkdir()

    with pytest.raises(AuthoritiesError, match=name):
        tls_context(tmp_path / name)


async def test_an_authority_that_is_exchanged_behind_us_is_believed_on_new_connections(tmp_path: Path, authority: trustme.CA) -> None:
    """Case 29: a mounted volume is swapped as a whole; the next connection believes the new one and no more the old one."""
    second = trustme.CA()
    for name, each in (("one", authority), ("two", second)):
        (tmp_path / name).mkdir()
        each.cert_pem.write_to_path(tmp_path / name / "ca.pem")
    link = tmp_path / "mounted"
    link.symlink_to("one")
    contexts = Contexts(encrypted=True, authorities=link)
    contexts.show(contexts.make(None, ""), None, "")
    assert not contexts.follow_files()
    async with tls_manager(second) as manager:
        transport = Transport(Endpoint(join=lambda path: manager.url + path, contexts=lambda: contexts.current), limits=LIMITS)
        with pytest.raises(UntrustedError):
            await call(transport)

        (tmp_path / "next").symlink_to("two")
        (tmp_path / "next").replace(link)

        assert contexts.follow_files()
        await call(transport)
        await transport.close()
    assert contexts.current is not None
    assert not await believes(contexts.current, authority)


def test_children_believe_the_private_authorities_beside_the_systems(tmp_path: Path, authority: trustme.CA) -> None:
    """One file with both, for programs that would read SSL_CERT_FILE instead of the system's."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    environment = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "SSL_CERT_FILE": str(tmp_path / "ca.pem")}
    network = load(LocalSettings, environment=environment).settings.network

    variables = child_environment(network, environment)

    text = Path(variables["SSL_CERT_FILE"]).read_text()
    assert authority.cert_pem.bytes().decode().strip() in text
    system = system_bundle()
    if system is not None:
        assert text.count("BEGIN CERTIFICATE") > 1
        assert system.read_text().strip().splitlines()[1] in text
    assert variables["AWS_CA_BUNDLE"] == variables["SSL_CERT_FILE"]


def test_the_systems_own_file_is_copied_for_nobody(tmp_path: Path) -> None:
    """It is large, and state directories may be small: children read it where it is."""
    system = system_bundle()
    if system is None:
        pytest.skip("this machine keeps its authorities in no single file")
    (tmp_path / "link.pem").symlink_to(system)
    environment = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "SSL_CERT_FILE": str(tmp_path / "link.pem")}
    network = load(LocalSettings, environment=environment).settings.network

    assert child_environment(network, environment)["SSL_CERT_FILE"] == str(tmp_path / "link.pem")

    assert not (tmp_path / "cache").exists()
    assert child_bundle(tmp_path, tmp_path / "link.pem") == tmp_path / "link.pem"
    assert child_bundle(tmp_path, tmp_path / "other.pem").parent.parent == tmp_path


def test_a_bundle_is_written_whole(tmp_path: Path, authority: trustme.CA) -> None:
    """OpenSSL reads it, and writing it again leaves nothing beside it."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")

    count = [write_bundle(tmp_path / "made" / "all.pem", tmp_path / "ca.pem") for _ in range(2)][1]

    assert os.listdir(tmp_path / "made") == ["all.pem"]
    listed = subprocess.run(
        ["openssl", "crl2pkcs7", "-nocrl", "-certfile", str(tmp_path / "made" / "all.pem")], capture_output=True, check=True
    )
    assert listed.stdout
    assert count >= 1
