"""Repositories that are written to: writers by address, servers that take pushes, and hooks that refuse them."""

from pathlib import Path

from delegate.engine.sources.git.settings import GitSettings
from delegate.engine.sources.git.writing import Build, Identity, Prepared, RepositoryWriter
from tests.sources.repositories import Repository, git, make_sources

BOT = Identity("Delegate Bot", "bot@example.test")


def writer_for(folder: Path, url: str, settings: GitSettings | None = None) -> RepositoryWriter:
    repositories = make_sources(folder, settings).repositories
    return repositories.writer(repositories.parse(url), BOT)


def in_bare(repository: Repository, *arguments: str) -> str:
    """What git prints of the repository that is pushed to."""
    return git(f"--git-dir={repository.bare}", *arguments)


def allow_pushes(repository: Repository) -> None:
    in_bare(repository, "config", "http.receivepack", "true")


def protect(repository: Repository, branch: str = "main") -> None:
    """A hook that refuses pushes to a branch, in the words of a well-known host."""
    hook = repository.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\nwhile read old new ref; do\n"
        f'  if [ "$ref" = refs/heads/{branch} ]; then\n'
        '    echo "GitLab: You are not allowed to push code to protected branches on this project." >&2; exit 1\n'
        "  fi\ndone\n"
    )
    hook.chmod(0o755)


def commits_on(repository: Repository, branch: str = "main") -> list[str]:
    """The subjects, newest first."""
    return in_bare(repository, "log", "--format=%s", branch).splitlines()


def setting(writer: RepositoryWriter, files: dict[str, bytes], message: str = "change it") -> Build:
    """A change that gives files their contents, where they don't have them yet."""

    async def build(tip: str) -> Prepared | None:
        found = await writer.files_of(tip)
        if await found.read(list(files)) == files:
            return None
        return Prepared(await writer.write_tree(tip, files), message)

    return build
