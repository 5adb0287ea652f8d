# Debian 13: the binaries of uWebSockets.js need a recent glibc. The version is that of .node-version. No digest is known
# yet; Renovate adds it (renovate.json).
ARG NODE=22.23.3-trixie-slim

FROM node:${NODE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
# Empty: uWebSockets.js is that of the lock file, which the tests ran on. Else it is the address of an official release,
# https://codeload.github.com/uNetworking/uWebSockets.js/tar.gz/refs/tags/v20.69.0
ARG UWS=
# The hash of that release as npm writes it, sha512-…; another one ends the build.
ARG UWS_INTEGRITY=
# package.json is to name what is in the image and nothing else
RUN npm pkg delete devDependencies allowScripts scripts \
    && if [ -n "${UWS}" ]; then npm install --omit=dev --ignore-scripts --no-audit --no-fund --save-exact "uWebSockets.js@${UWS}"; fi \
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
# package managers are of no use to a running service, and an intruder is better off with them
RUN rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack \
      /usr/local/bin/yarn /usr/local/bin/yarnpkg /opt/yarn* \
    && ln -s /app/src/main.ts /usr/local/bin/hotel-api
COPY --from=dependencies /app/package.json /app/sbom.cdx.json ./
COPY --from=dependencies /app/node_modules ./node_modules
COPY LICENSE ./
COPY sql ./sql
COPY src ./src
# the right binary is kept, and the library has every name that the service uses
RUN node src/http/check-library.ts
# nothing of it is the user's, and nothing has to be written: the root file system may be read-only
USER 10001:10001
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 CMD ["hotel-api", "health"]
ENTRYPOINT ["hotel-api"]
CMD ["serve"]
