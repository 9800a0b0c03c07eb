import { version } from "../version.ts";

/** The shell: no data in it, so that it may be public. Addresses are relative: it may stand behind a proxy's path. */
export const dashboardPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="dark light">
<title>prefill-router</title>
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='6' fill='%238b93a7'/%3E%3C/svg%3E">
<link rel="stylesheet" href="assets/dashboard.css">
<script type="module" src="assets/dashboard.js"></script>
</head>
<body>
<header>
<h1>prefill-router <small>${version}</small></h1>
<nav aria-label="Pages"><a href="docs">API</a> <a href="metrics">Metrics</a></nav>
<div id="tools" role="group" aria-label="View"></div>
</header>
<main id="main">
<noscript><p class="notice">The dashboard needs JavaScript. The same facts are at <a href="metrics">/metrics</a> and <a href="ready">/ready</a>.</p></noscript>
</main>
<dialog id="detail" aria-labelledby="detail-title"></dialog>
</body>
</html>
`;
