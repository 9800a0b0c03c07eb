const KEY = "prefill-router-theme";

/** Dark or light as the system has it, until somebody chooses. */
export function startTheme(): void {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
}

export function isDark(): boolean {
  const { theme } = document.documentElement.dataset;
  return theme === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
}

export function switchTheme(): void {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem(KEY, next);
}
