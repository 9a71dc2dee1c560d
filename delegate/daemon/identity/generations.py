"""Certificates on disk, one generation after the other. What is there is whole, also after a power cut, and never mixed.

    <directory>/generations/7/tls.key tls.crt ca.crt tls.pem     written whole under another name, flushed, then named
    <directory>/current -> generations/7                         switched by one rename

A reader of another process resolves `current` once and reads in that directory, or reads `current/tls.pem` (key and chain) with one
`open`: then key and certificate belong together, at any time. Two opens through `current` may fall on either side of the switch. The
generations before the current one stay for a while, for readers that are just at them. Blocking; several processes may write at once.
"""

import contextlib
import errno
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from delegate.daemon.directories import PRIVATE_DIRECTORY, StateDirectoryError, explain_fault
from delegate.daemon.identity.disk import Disk
from delegate.daemon.identity.errors import CertificateDamagedError
from delegate.protocol.pki.bundles import read_bundle
from delegate.protocol.pki.errors import PkiError
from delegate.protocol.pki.pairs import Material, read_pair

log = structlog.get_logger(__name__)
CURRENT, GENERATIONS = "current", "generations"
KEY_FILE, CHAIN_FILE, AUTHORITIES_FILE, PAIR_FILE = "tls.key", "tls.crt", "ca.crt", "tls.pem"
_KEPT_BEFORE = 2
_MOST_KEPT = 64
KEPT_SECONDS = 60.0
"""Generations that were made within that time stay, for slow readers."""
_DEBRIS_SECONDS = 600.0
_TRIES = 16
_MAX_FILE_BYTES = 2**20


@dataclass(frozen=True)
class Generation:
    """One that is on disk, whole; `directory` never changes its content."""

    number: int
    directory: Path
    material: Material

    @property
    def pair_file(self) -> Path:
        """Key and chain in one file, as OpenSSL loads them."""
        return self.directory / PAIR_FILE


class Generations:
    """The generations of one directory. Every method but `current_number` raises StateDirectoryError."""

    def __init__(self, directory: Path, disk: Disk | None = None, *, kept_seconds: float = KEPT_SECONDS) -> None:
        self.directory = directory
        self._kept_seconds = kept_seconds
        self._generations = directory / GENERATIONS
        self._disk = disk or Disk()

    def current_number(self) -> int | None:
        """What `current` points to: cheap, and enough to see that somebody switched."""
        try:
            return _number(Path(os.readlink(self.directory / CURRENT)).name)
        except OSError:
            return None

    def load_current(self) -> Generation | None:
        """The current generation; where that can't be used, the newest one that can; None where there is none."""
        current = self.current_number()
        others = sorted((number for number in self._numbers() if number != current), reverse=True)
        for number in ([] if current is None else [current]) + others:
            try:
                found = self.load(number)
            except CertificateDamagedError as error:
                log.error("identity.generation_damaged", generation=number, error=str(error))
                continue
            if number != current:
                log.warning("identity.earlier_generation_used", generation=number, current=current)
            return found
        return None

    def load(self, number: int) -> Generation:
        """One generation. Raises CertificateDamagedError."""
        directory = self._generations / str(number)
        try:
            pair = read_pair(_read(directory / KEY_FILE), _read(directory / CHAIN_FILE))
            authorities = read_bundle(_read(directory / AUTHORITIES_FILE))
        except (OSError, PkiError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            raise CertificateDamagedError(f"the certificate in {directory} can't be used: {words}", file=str(directory)) from error
        return Generation(number, directory, Material(pair, authorities))

    def numbers(self) -> list[int]:
        """Those of all generations, the newest first, whatever can be used of them."""
        return sorted(self._numbers(), reverse=True)

    def usable(self) -> list[Generation]:
        """Every generation that can be used, the newest first."""
        found = []
        for number in self.numbers():
            with contextlib.suppress(CertificateDamagedError):
                found.append(self.load(number))
        return found

    def write(self, material: Material) -> Generation:
        """Puts a new generation beside the others; it is not the current one yet."""
        try:
            self._prepare()
            temporary = self._generations / f".new-{secrets.token_hex(6)}"
            self._disk.make_directory(temporary)
            try:
                pair = material.pair
                key, chain = pair.key.to_pem(), pair.chain_pem().encode()
                self._write_file(temporary / KEY_FILE, key)
                self._write_file(temporary / CHAIN_FILE, chain)
                self._write_file(temporary / AUTHORITIES_FILE, material.authorities.to_pem().encode())
                self._write_file(temporary / PAIR_FILE, key + chain)
                self._disk.sync_directory(temporary)
                number = self._name(temporary)
            except OSError:
                self._remove(temporary)
                raise
            self._disk.sync_directory(self._generations)
        except OSError as error:
            raise self._explain(error) from error
        return Generation(number, self._generations / str(number), material)

    def activate(self, generation: Generation) -> None:
        """Makes it the current one, for good, in one step; then old ones go."""
        link = self.directory / f".{CURRENT}-{secrets.token_hex(6)}"
        try:
            self._disk.link(link, f"{GENERATIONS}/{generation.number}")
            try:
                self._disk.rename(link, self.directory / CURRENT)
            except OSError:
                with contextlib.suppress(OSError):
                    self._disk.unlink(link)
                raise
            self._disk.sync_directory(self.directory)
        except OSError as error:
            raise self._explain(error) from error
        self._prune(generation.number)

    def discard(self, generation: Generation) -> None:
        """Takes one away that did not become the current one. A disk that won't let it go keeps it."""
        if generation.number != self.current_number():
            self._remove(generation.directory)

    def _prepare(self) -> None:
        self.directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            self._disk.make_directory(self._generations)
            self._disk.sync_directory(self.directory)

    def _name(self, temporary: Path) -> int:
        """Gives the finished directory its number, the next one that nobody else took."""
        number = max(self._numbers(), default=0)
        for _ in range(_TRIES):
            number += 1
            try:
                self._disk.rename(temporary, self._generations / str(number))
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            else:
                return number
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _write_file(self, path: Path, data: bytes) -> None:
        descriptor = self._disk.create(path)
        try:
            view = memoryview(data)
            while view:
                written = self._disk.write(descriptor, view)
                if not written:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                view = view[written:]
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)

    def _numbers(self) -> set[int]:
        try:
            return {number for name in os.listdir(self._generations) if (number := _number(name)) is not None}
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise self._explain(error) from error

    def _prune(self, current: int) -> None:
        """What is older than the last few goes, and what writers that died left behind. Nothing depends on it."""
        with contextlib.suppress(OSError, StateDirectoryError):
            before = sorted((each for each in self._numbers() if each < current), reverse=True)
            for rank, number in enumerate(before):
                path = self._generations / str(number)
                if rank >= _MOST_KEPT or (rank >= _KEPT_BEFORE and _age(path) > self._kept_seconds):
                    self._remove(path)
            for path in (*self._generations.glob(".new-*"), *self._generations.glob(".old-*"), *self.directory.glob(f".{CURRENT}-*")):
                if _age(path) > _DEBRIS_SECONDS:
                    self._remove(path)

    def _remove(self, path: Path) -> None:
        """Renamed first, so that a half removed generation is none."""
        with contextlib.suppress(OSError):
            if path.is_symlink():
                self._disk.unlink(path)
                return
            if not path.name.startswith("."):
                hidden = path.with_name(f".old-{path.name}-{secrets.token_hex(4)}")
                self._disk.rename(path, hidden)
                path = hidden
            for each in path.iterdir():
                self._disk.unlink(each)
            self._disk.remove_directory(path)

    def _explain(self, error: OSError) -> StateDirectoryError:
        return explain_fault(self.directory, error, called="certificate directory", variable="DELEGATE_CERT_DIR")


def _age(path: Path) -> float:
    return time.time() - path.lstat().st_mtime


def _number(name: str) -> int | None:
    return int(name) if name.isascii() and name.isdigit() and len(name) < 19 else None


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data
