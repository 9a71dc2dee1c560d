"""The certificates of authorities on this machine: the system's, and those of a file or directory that a setting names.

Children (git, credential plugins) know one bundle instead of two places, so both are written into one file for them.
"""

import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

_KNOWN_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Alpine, BSD
)
_SUFFIXES = frozenset({".pem", ".crt", ".cer", ".ca"})
_BLOCK = re.compile(rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.+?-----END (?:TRUSTED )?CERTIFICATE-----", re.DOTALL)
_LARGEST_BYTES = 16 * 2**20


def system_bundle() -> Path | None:
    """The file with the system's authorities; None where they are in a directory alone, or nowhere."""
    compiled_in = ssl.get_default_verify_paths()
    for path in (Path(compiled_in.openssl_cafile), *map(Path, _KNOWN_BUNDLES)):
        if path.is_file() and os.access(path, os.R_OK):
            return path
    return None


def system_directory() -> Path | None:
    """The directory in which TLS libraries look the system's authorities up by hash."""
    directory = Path(ssl.get_default_verify_paths().openssl_capath)
    return directory if directory.is_dir() else None


def bundle_files(path: Path) -> tuple[Path, ...]:
    """The files of a bundle: itself, or the certificate files of a directory (as a mounted ConfigMap is), by name. Raises OSError."""
    if not path.is_dir():
        return (path,)
    return tuple(each for each in sorted(path.iterdir()) if not each.name.startswith(".") and _may_hold(each))


def is_system_bundle(path: Path) -> bool:
    """Whether this file is the system's own: nobody has to be told of its authorities beside the system's."""
    system = system_bundle()
    try:
        return system is not None and path.samefile(system)
    except OSError:
        return False


def child_bundle(state_dir: Path, extra: Path | None) -> Path:
    """The bundle of the daemon's children: one that it keeps, or `extra` itself where that is the system's file, which is large."""
    return extra if extra is not None and is_system_bundle(extra) else state_dir / "cache" / "authorities.pem"


def write_bundle(target: Path, extra: Path | None) -> int:
    """Writes the system's authorities and those of `extra` into one file; how many they are. Readers see it whole. Raises OSError."""
    blocks = list(dict.fromkeys(_blocks(extra)))
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    beside.write_bytes(b"\n".join(blocks) + b"\n")
    beside.replace(target)
    return len(blocks)


def _blocks(extra: Path | None) -> Iterator[bytes]:
    """The private ones first: they are what is looked for most."""
    system, directory = system_bundle(), system_directory()
    files = bundle_files(extra) if extra is not None else ()
    if system is not None:
        files += (system,)
    elif directory is not None:
        files += bundle_files(directory)
    for file in files:
        with file.open("rb") as opened:
            yield from (block.replace(b"\r\n", b"\n") for block in _BLOCK.findall(opened.read(_LARGEST_BYTES)))


def _may_hold(path: Path) -> bool:
    return path.suffix.lower() in _SUFFIXES and path.is_file()
