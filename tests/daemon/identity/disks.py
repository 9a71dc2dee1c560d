"""Disks that fail: with an error at one call, by the death of the process, or by a power cut that forgets what was not flushed."""

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from delegate.daemon.identity.disk import Disk


class Died(BaseException):
    """The process is no more: nothing that it would have done afterwards happens."""


class CountingDisk(Disk):
    """Hands each call to `before` with its name, and keeps the names."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def before(self, name: str) -> None:
        self.calls.append(name)

    def make_directory(self, directory: Path) -> None:
        self.before("make_directory")
        super().make_directory(directory)

    def create(self, path: Path) -> int:
        self.before("create")
        return super().create(path)

    def write(self, descriptor: int, data: memoryview) -> int:
        self.before("write")
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.before("sync")
        super().sync(descriptor)

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self.before("close")

    def rename(self, old: Path, new: Path) -> None:
        self.before("rename")
        super().rename(old, new)

    def link(self, path: Path, target: str) -> None:
        self.before("link")
        super().link(path, target)

    def unlink(self, path: Path) -> None:
        self.before("unlink")
        super().unlink(path)

    def remove_directory(self, directory: Path) -> None:
        self.before("remove_directory")
        super().remove_directory(directory)

    def sync_directory(self, directory: Path) -> None:
        self.before("sync_directory")
        super().sync_directory(directory)


class FailingDisk(CountingDisk):
    """Fails the call of this number with an error."""

    def __init__(self, fails_at: int, error: int) -> None:
        super().__init__()
        self.fails_at = fails_at
        self.error = error

    def before(self, name: str) -> None:
        super().before(name)
        if len(self.calls) == self.fails_at:
            raise OSError(self.error, os.strerror(self.error))


class ShortDisk(CountingDisk):
    """Writes only so many bytes at a time."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def write(self, descriptor: int, data: memoryview) -> int:
        return super().write(descriptor, data[: self.most])


class DyingDisk(CountingDisk):
    """The process dies before the call of this number; a write is half done then."""

    def __init__(self, dies_at: int) -> None:
        super().__init__()
        self.dies_at = dies_at
        self.died = False

    def before(self, name: str) -> None:
        if self.died:
            raise Died
        super().before(name)
        if len(self.calls) == self.dies_at:
            self.died = True
            self.die()
            raise Died

    def write(self, descriptor: int, data: memoryview) -> int:
        if not self.died and len(self.calls) + 1 == self.dies_at:
            os.write(descriptor, data[: len(data) // 2])
        return super().write(descriptor, data)

    def die(self) -> None:
        """What is on the disk stays as it is."""


@dataclass
class Node:
    """What of a file, link or directory would outlive a power cut."""

    content: bytes = b""
    target: str = ""
    entries: "dict[str, Node] | None" = None


@dataclass
class Living:
    """What there is now: the nodes by inode, each new file a new node, also where an inode is used again."""

    nodes: dict[int, Node] = field(default_factory=dict)

    def of(self, path: Path) -> Node:
        return self.nodes[path.lstat().st_ino]

    def entries(self, directory: Path) -> dict[str, Node]:
        return {path.name: self.of(path) for path in directory.iterdir()}


class PowerCutDisk(DyingDisk):
    """As DyingDisk, and the disk forgets contents without `sync` and names without `sync_directory`."""

    def __init__(self, dies_at: int, root: Path) -> None:
        super().__init__(dies_at)
        self.root = root
        self.living = Living()
        self._adopt(root)

    def make_directory(self, directory: Path) -> None:
        super().make_directory(directory)
        self.living.nodes[directory.stat().st_ino] = Node(entries={})

    def create(self, path: Path) -> int:
        descriptor = super().create(path)
        self.living.nodes[os.fstat(descriptor).st_ino] = Node()
        return descriptor

    def link(self, path: Path, target: str) -> None:
        super().link(path, target)
        self.living.nodes[path.lstat().st_ino] = Node(target=target)

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.living.nodes[os.fstat(descriptor).st_ino].content = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def sync_directory(self, directory: Path) -> None:
        super().sync_directory(directory)
        self.living.of(directory).entries = self.living.entries(directory)

    def die(self) -> None:
        node = self.living.of(self.root)
        for path in self.root.iterdir():
            path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)
        _restore(self.root, node)

    def _adopt(self, path: Path) -> Node:
        """What was there before is durable."""
        if path.is_symlink():
            node = Node(target=os.readlink(path))
        elif path.is_dir():
            node = Node(entries={each.name: self._adopt(each) for each in path.iterdir()})
        else:
            node = Node(content=path.read_bytes())
        self.living.nodes[path.lstat().st_ino] = node
        return node


def _restore(directory: Path, node: Node) -> None:
    for name, each in (node.entries or {}).items():
        path = directory / name
        if each.target:
            path.symlink_to(each.target)
        elif each.entries is not None:
            path.mkdir()
            _restore(path, each)
        else:
            path.write_bytes(each.content)


def calls_of(work: Callable[[Disk], None]) -> int:
    """How many calls a piece of work makes on a disk that never fails."""
    disk = CountingDisk()
    work(disk)
    return len(disk.calls)


def until_it_dies(work: Callable[[], None]) -> None:
    with contextlib.suppress(Died):
        work()
