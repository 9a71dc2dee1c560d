"""Sets of manifests that tests sync."""

from pathlib import Path

WEB = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
data:
  greeting: Good morning
---
apiVersion: v1
kind: Secret
metadata:
  name: web
stringData:
  password: hunter22
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: web
          image: registry.example/web:1.0.0
"""
EXTRA = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: extra
"""


def write_shop(directory: Path, *, extra: bool = True) -> Path:
    """A directory `shop` with two files."""
    shop = directory / "shop"
    shop.mkdir()
    (shop / "web.yaml").write_text(WEB)
    if extra:
        (shop / "extra.yaml").write_text(EXTRA)
    return shop
