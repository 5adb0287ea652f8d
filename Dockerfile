# Debian 13, because the binaries of uWebSockets.js need glibc 2.38. No digest is known yet; Renovate adds it (renovate.json).
ARG NODE=24.21.0-trixie-slim

FROM node:${NODE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
# The build of uWebSockets.js, because that of the lock file ends with Node 22. It is a package of npm, or the address of an
# official release: https://codeload.github.com/uNetworking/uWebSockets.js/tar.gz/refs/tags/v20.69.0
ARG UWS=npm:@btc-vision/uwebsockets.js@20.57.0
# Its hash as npm writes it. Another one ends the build; empty: it is not checked.
ARG UWS_INTEGRITY=sha512-SuPpEjSKZ7P58L/27BXXsrGsMwLmPupfYny8oJsOmFZ4+zX7Ca97nBPtZ3ngKbfeDZzTyi7rXri74INGerhugg==
# package.json is to name what is in the image and nothing else
RUN npm pkg delete devDependencies allowScripts scripts \
    && npm install --omit=dev --ignore-scripts --no-audit --no-fund --save-exact "uWebSockets.js@${UWS}" \
    && installed="$(node -p 'require("./node_modules/.package-lock.json").packages["node_modules/uWebSockets.js"].integrity')" \
    && if [ -n "${UWS_INTEGRITY}" ] && [ "${UWS_INTEGRITY}" != "${installed}" ]; then \
         echo "uWebSockets.js has the hash ${installed}, not ${UWS_INTEGRITY}" >&2; exit 1; \
       fi
# The package holds a binary for each platform and Node
RUN find node_modules/uWebSockets.js -name 'uws_*.node' \
      ! -name "uws_$(node -p 'process.platform')_$(node -p 'process.arch')_$(node -p 'process.versions.modules').node" -delete
RUN npm sbom --omit=dev --sbom-format=cyclonedx > sbom.cdx.json

FROM node:${NODE}
ARG NODE
ARG VERSION=1.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="hotel-api" \
      org.opencontainers.image.description="A read-only HTTP API that serves hotel records as JSON" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/node:${NODE}"
ENV NODE_ENV=production
WORKDIR /app
# the package managers of Node are of no use to a running service, and an intruder is better off with them
RUN rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack \
      /usr/local/bin/yarn /usr/local/bin/yarnpkg /opt/yarn* \
    && ln -s /app/src/main.ts /usr/local/bin/hotel-api
COPY --from=dependencies /app/package.json /app/sbom.cdx.json ./
COPY --from=dependencies /app/node_modules ./node_modules
COPY LICENSE ./
COPY sql ./sql
COPY src ./src
COPY docs/api/clients ./docs/api/clients
# Types stripped and code compiled once: each process starts with half of the CPU time. Node finds the files by the number
# of the user, who cannot write them.
ENV NODE_COMPILE_CACHE=/app/compiled
RUN mkdir --mode=777 compiled \
    && as_user="setpriv --reuid=10001 --regid=10001 --clear-groups" \
    && ${as_user} hotel-api --help > /dev/null && ${as_user} node src/cluster/worker.ts \
    && chown --recursive root:root compiled && chmod --recursive u=rwX,go=rX compiled
# nothing of it is the user's, and nothing has to be written: the root file system may be read-only
USER 10001:10001
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 CMD ["hotel-api", "health"]
ENTRYPOINT ["hotel-api"]
CMD ["serve"]
