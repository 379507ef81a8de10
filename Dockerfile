# Parley with its default engine, for a plain CPU: the same lock and the same models as a clone.
#   docker build -t parley . && docker run --rm --network host parley
# Without the host's network, publish 8300 for TCP and UDP and set PARLEY_WEBRTC__PUBLIC_ADDRESSES.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 parley \
    && install --directory --owner parley /parley

USER parley
WORKDIR /parley
COPY --chown=parley . .

# The models are part of the image: it starts without a network, and what was tested is what runs.
RUN PIP_NO_CACHE_DIR=1 scripts/setup && .venv/bin/parley models fetch

ENV PARLEY_HOST=0.0.0.0 \
    PARLEY_PORT=8300
EXPOSE 8300/tcp 8300/udp
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD [".venv/bin/python", "-c", "import os, urllib.request as web; web.urlopen('http://127.0.0.1:' + os.environ['PARLEY_PORT'] + '/health')"]
ENTRYPOINT [".venv/bin/parley", "serve"]
