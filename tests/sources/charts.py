"""Small charts as files, and packed ones."""

import gzip
import io
import tarfile
from collections.abc import Mapping

CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-config
  namespace: {{ .Release.Namespace }}
data:
  values: {{ .Values | toJson | quote }}
"""


def chart(name: str = "shop", files: Mapping[str, str] | None = None, *, directory: str = "", version: str = "1.2.3") -> dict[str, str]:
    """A chart's files below a directory; by default it shows its values in a ConfigMap."""
    head = f"apiVersion: v2\nname: {name}\nversion: {version}\n"
    found = {"Chart.yaml": head, "values.yaml": "level: chart\n", "templates/config.yaml": CONFIG} | dict(files or {})
    return {f"{directory}/{path}".lstrip("/"): text for path, text in found.items() if text}


def packed(files: Mapping[str, str | bytes], name: str = "shop") -> bytes:
    """A chart as `helm package` packs it: gzipped tar, everything below the chart's name; the same bytes each time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)
