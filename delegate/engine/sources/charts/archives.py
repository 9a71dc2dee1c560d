"""Packed charts and other archives as trees in memory: nothing is unpacked onto a disk, and nothing can lead out. Blocks."""

import hashlib
import io
import tarfile
import zlib
from collections.abc import Collection, Mapping, Sequence

from delegate.engine.sources.errors import SourceTooLargeError, UnexpectedAnswerError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.trees import Entry, EntryKind, Found

Parts = tuple[str, ...]
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_CHUNK_BYTES = 64 * 1024


class ArchiveTree:
    """The files of an archive. A handle is the path below its top."""

    def __init__(self, digest: str, directories: Mapping[Parts, Mapping[str, Entry[Parts]]], contents: Mapping[Parts, bytes | str]) -> None:
        self.digest = digest
        self._directories = directories
        self._contents = contents

    @property
    def root(self) -> Entry[Parts]:
        return Entry(EntryKind.DIRECTORY, ())

    def top_names(self) -> Collection[str]:
        """What stands at the top."""
        return self._directories[()].keys()

    async def list_directory(self, handle: Parts, shown: str) -> Mapping[str, Entry[Parts]]:
        del shown
        return self._directories[handle]

    async def read_link(self, handle: Parts, shown: str) -> str:
        del shown
        return str(self._contents[handle])

    async def open_submodule(self, handle: Parts, shown: str) -> Entry[Parts] | None:
        """None: here are files and directories alone."""
        del handle, shown
        return None

    async def read_files(self, found: Sequence[Found[Parts]]) -> list[SourceFile]:
        return [SourceFile(path, bytes(self._contents[handle])) for path, handle in found]  # type: ignore[arg-type]  # files are bytes

    def fingerprint(self, found: Sequence[Found[Parts]]) -> str:
        digest = hashlib.sha256(self.digest.encode())
        for path, handle in found:
            digest.update(repr((path, handle)).encode())
        return digest.hexdigest()


def read_archive(data: bytes, where: str, limits: SourceLimits) -> ArchiveTree:
    """The tree of a gzipped tar.

    Raises UnexpectedAnswerError for what is none or holds what has no place in a chart, SourceTooLargeError past a limit.
    """
    directories: dict[Parts, dict[str, Entry[Parts]]] = {(): {}}
    contents: dict[Parts, bytes | str] = {}
    try:
        content = _decompress(data, where, limits)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                if len(contents) >= limits.files:
                    raise SourceTooLargeError(f"{where}: more than {limits.files} files")
                _add(archive, member, where, directories, contents)
    except (tarfile.TarError, zlib.error, EOFError, ValueError) as error:
        raise UnexpectedAnswerError(f"{where} is no packed chart: {error}") from error
    return ArchiveTree(hashlib.sha256(data).hexdigest(), directories, contents)


def _add(
    archive: tarfile.TarFile,
    member: tarfile.TarInfo,
    where: str,
    directories: dict[Parts, dict[str, Entry[Parts]]],
    contents: dict[Parts, bytes | str],
) -> None:
    parts = tuple(part for part in member.name.split("/") if part not in ("", "."))
    if ".." in parts or member.name.startswith("/") or "\0" in member.name:
        raise UnexpectedAnswerError(f"{where}: {member.name!r} leads out of the archive")
    if not parts:
        return
    if member.isdir():
        _directory(directories, contents, parts, where)
        return
    parent = _directory(directories, contents, parts[:-1], where)
    if parts in directories:
        raise UnexpectedAnswerError(f"{where}: {member.name!r} is a file and a directory")
    if member.isfile():
        file = archive.extractfile(member)
        contents[parts] = file.read() if file is not None else b""
        parent[parts[-1]] = Entry(EntryKind.FILE, parts)
    elif member.issym():
        contents[parts] = member.linkname
        parent[parts[-1]] = Entry(EntryKind.LINK, parts)
    else:
        raise UnexpectedAnswerError(f"{where}: {member.name!r} is neither a file nor a directory nor a symbolic link")


def _directory(
    directories: dict[Parts, dict[str, Entry[Parts]]], contents: Mapping[Parts, object], parts: Parts, where: str
) -> dict[str, Entry[Parts]]:
    """The members of a directory, made with all above it where it is new."""
    for depth in range(1, len(parts) + 1):
        path = parts[:depth]
        if path in contents:
            raise UnexpectedAnswerError(f"{where}: {'/'.join(path)!r} is a file and a directory")
        if path not in directories:
            directories[path] = {}
            directories[path[:-1]][path[-1]] = Entry(EntryKind.DIRECTORY, path)
    return directories[parts]


def _decompress(data: bytes, where: str, limits: SourceLimits) -> bytes:
    """Piece by piece, so that little data can't become much."""
    decompressor = zlib.decompressobj(wbits=_GZIP_WINDOW)
    pieces, size, rest = list[bytes](), 0, data
    while rest and not decompressor.eof:
        piece = decompressor.decompress(rest, _CHUNK_BYTES)
        rest = decompressor.unconsumed_tail
        size += len(piece)
        if size > limits.total_bytes:
            raise SourceTooLargeError(f"{where}: more than {limits.total_bytes} bytes when unpacked")
        pieces.append(piece)
    if not decompressor.eof:
        raise EOFError("it breaks off")
    return b"".join(pieces)
