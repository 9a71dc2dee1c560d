# Rootless, read-only root file system, any uid. /var/lib/delegate is the one directory that is written beside /var/log/dlq and /tmp.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY delegate ./delegate
RUN python -m venv /opt/delegate \
 && /opt/delegate/bin/pip install --no-cache-dir --constraint constraints.txt '.[manager]'

# The renderers. Each download is checked against the sum that is published beside it.
FROM python:3.11-slim-bookworm AS renderers
ARG HELM_VERSION=v4.3.1
ARG KUBECTL_VERSION=v1.37.1
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates curl
WORKDIR /renderers
RUN set -eu; arch=$(dpkg --print-architecture); \
    curl -fsSLO "https://get.helm.sh/helm-$HELM_VERSION-linux-$arch.tar.gz"; \
    curl -fsSL "https://get.helm.sh/helm-$HELM_VERSION-linux-$arch.tar.gz.sha256sum" | sha256sum --check --strict; \
    tar -xzf "helm-$HELM_VERSION-linux-$arch.tar.gz" --strip-components=1 "linux-$arch/helm"; \
    curl -fsSLO "https://dl.k8s.io/release/$KUBECTL_VERSION/bin/linux/$arch/kubectl"; \
    echo "$(curl -fsSL "https://dl.k8s.io/release/$KUBECTL_VERSION/bin/linux/$arch/kubectl.sha256")  kubectl" | sha256sum --check --strict; \
    chmod 0755 helm kubectl

FROM python:3.11-slim-bookworm
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates git gnupg libnss-wrapper openssh-client \
 && rm -rf /var/lib/apt/lists/* \
 && install --directory --owner=10001 --group=0 --mode=0770 /var/lib/delegate /var/log/dlq
COPY --from=build /opt/delegate /opt/delegate
COPY --from=renderers /renderers/helm /renderers/kubectl /usr/local/bin/
ENV PATH=/opt/delegate/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/delegate
USER 10001:0
VOLUME ["/var/lib/delegate", "/var/log/dlq"]
EXPOSE 9090
ENTRYPOINT ["delegate"]
CMD ["run"]
