"""Images whose tag may mean something else tomorrow."""

from collections.abc import Collection, Iterator

from delegate.model.policies.pod_specs import containers_of
from delegate.model.policies.violations import Flaw
from delegate.model.resources import JsonObject

MUTABLE_TAGS = ("latest", "prod", "production", "stable", "main", "master", "dev", "staging", "nightly", "edge")


def mutable_tags(body: JsonObject, tags: Collection[str]) -> Iterator[Flaw]:
    """Images named by such a tag, or by none (that is `latest`), and not by digest."""
    for way, container in containers_of(body):
        image = container.get("image")
        if not isinstance(image, str) or not image or "@" in image:
            continue
        tag = tag_of(image)
        if not tag or tag in tags:
            named = f"tag {tag!r}" if tag else "no tag, which means latest"
            yield Flaw(
                f"container {container.get('name')}: image {image} has {named}; what it means can change without a commit",
                f"{way}.image",
                "name a version that is never pushed again, or the digest: image@sha256:...",
            )


def tag_of(image: str) -> str:
    """The tag of an image without digest; a port is none."""
    return image.rpartition("/")[2].partition(":")[2]
