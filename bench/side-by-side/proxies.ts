import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** nginx as a plain reverse proxy: what moving the bytes costs. Returns the file's path. */
export function writeNginx(folder: string, port: number, urls: readonly string[]): string {
  const file = join(folder, "nginx.conf");
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (what) => `${what}_temp_path ${folder}/${what};`,
  );
  writeFileSync(
    file,
    `${process.getuid?.() === 0 ? "user root;" : ""}
worker_processes 1;
worker_rlimit_nofile 65536;
daemon off;
pid ${folder}/nginx.pid;
error_log ${folder}/nginx.log error;
events { worker_connections 30000; }
http {
  access_log off;
  ${temporary.join("\n  ")}
  client_body_buffer_size 1m;
  client_max_body_size 32m;
  keepalive_requests 1000000000;
  keepalive_timeout 300;
  upstream engines {
    ${urls.map((url) => `server ${new URL(url).host};`).join("\n    ")}
    keepalive 2048;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://engines;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 300s;
    }
  }
}
`,
  );
  return file;
}

export function writeHaproxy(folder: string, port: number, urls: readonly string[]): string {
  const file = join(folder, "haproxy.cfg");
  const servers = urls.map((url, index) => `  server engine${index} ${new URL(url).host} pool-max-conn -1`);
  writeFileSync(
    file,
    `global
  maxconn 9000
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  option http-keep-alive
  option http-no-delay
  http-reuse always
frontend in
  bind 127.0.0.1:${port} backlog 4096
  default_backend engines
backend engines
  balance roundrobin
${servers.join("\n")}
`,
  );
  return file;
}
