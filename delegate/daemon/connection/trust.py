"""Whom to believe that they are the manager: the system's authorities and those of `SSL_CERT_FILE`, side by side; for the manager alone
also those of `DELEGATE_MANAGER_CA_FILE`, and those that it has told of itself. Each may be a file, or a directory of files.
"""

import ssl
from pathlib import Path

from delegate.foundation.authorities import bundle_files, system_bundle, system_directory
from delegate.foundation.errors import Category, DelegateError


class AuthoritiesError(DelegateError):
    """The file of authorities can't be read."""

    default_code = "input.authorities"
    category = Category.INPUT


def tls_context(authorities: Path | None) -> ssl.SSLContext:
    """Verifies name and chain. Raises AuthoritiesError that names the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_TRUSTED_FIRST
    # The library looks at SSL_CERT_FILE instead of its own places; a private authority shall not take the public ones away.
    file, directory = system_bundle(), system_directory()
    if file is not None:
        context.load_verify_locations(cafile=file)
    if directory is not None:
        context.load_verify_locations(capath=directory)
    if authorities is not None:
        believe(context, authorities, "SSL_CERT_FILE")
    return context


def believe(context: ssl.SSLContext, authorities: Path, variable: str) -> None:
    """Adds the authorities of a file, or of the files of a directory, that a setting names. Raises AuthoritiesError."""
    fault: OSError | None = None
    believed = 0
    try:
        files = bundle_files(authorities)
    except OSError as error:
        files, fault = (), error
    for file in files:
        try:
            context.load_verify_locations(cafile=file)
            believed += 1
        except OSError as error:  # in a directory one that is broken takes nothing from the others
            fault = fault or error
    if not believed:
        words = "there are none in it" if fault is None else fault.strerror or str(fault)
        raise AuthoritiesError(
            f"{variable} names {authorities}, which holds no readable certificates: {words}",
            hint="point it to a PEM file, or a directory of PEM files, with the certificates of the authorities to trust",
            file=str(authorities),
        ) from fault
