# Rootless, read-only root file system, any uid. /var/lib/delegate is the one directory that is written beside /var/log/dlq and /tmp.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY delegate ./delegate
RUN python -m venv /opt/delegate \
 && /opt/delegate/bin/pip install --no-cache-dir --constraint constraints.txt '.[manager]'

FROM python:3.11-slim-bookworm
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates git openssh-client \
 && rm -rf /var/lib/apt/lists/* \
 && install --directory --owner=10001 --group=0 --mode=0770 /var/lib/delegate /var/log/dlq
COPY --from=build /opt/delegate /opt/delegate
ENV PATH=/opt/delegate/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/delegate
USER 10001:0
VOLUME ["/var/lib/delegate", "/var/log/dlq"]
EXPOSE 9090
ENTRYPOINT ["delegate"]
CMD ["run"]
