# Built from the repository's root: docker build -t prefill-router .
# The router is one process with one configuration: docker run -v ./router.yaml:/etc/prefill-router.yaml:ro -p 8000:8000 prefill-router
# With another `listen.port` or `--port` say it to the health check, too: docker run -e PORT=9000 …
FROM oven/bun:1.4.5-slim AS install
WORKDIR /app
COPY package.json package-lock.json ./
RUN bun install --production --ignore-scripts

FROM oven/bun:1.4.5-slim
WORKDIR /app
ENV NODE_ENV=production
COPY --from=install /app/node_modules ./node_modules
COPY package.json LICENSE ./
COPY src ./src
USER bun
EXPOSE 8000
# exec form: SIGTERM reaches the router, which drains and ends with 0. Give it `timeouts.shutdownMs` (docker stop --time).
ENTRYPOINT ["bun", "src/cli.ts"]
CMD ["serve", "--config", "/etc/prefill-router.yaml", "--host", "0.0.0.0"]
HEALTHCHECK --interval=10s --timeout=3s CMD ["bun", "-e", "process.exit((await fetch('http://127.0.0.1:' + (process.env.PORT || 8000) + '/health')).ok ? 0 : 1)"]
