import type { PrefillRouter } from "../create-router.ts";
import type { LoadedConfig } from "./load.ts";

/**
 * A function that reads the configuration again and hands it to the running router; for SIGHUP and for a changed file. One reload at a
 * time; what is asked for meanwhile makes one more. A configuration that is refused changes nothing: why is logged, and said on stderr
 * as at start.
 */
export function reloader(
  load: () => Promise<LoadedConfig>,
  router: Pick<PrefillRouter, "control" | "telemetry">,
  error: (line: string) => void,
): (why: string) => Promise<void> {
  let running: Promise<void> | undefined;
  let again = false;

  return function reload(why): Promise<void> {
    if (running !== undefined) {
      again = true;
      return running;
    }
    running = runAll(why).finally(() => {
      running = undefined;
    });
    return running;
  };

  async function runAll(why: string): Promise<void> {
    do {
      again = false;
      await once(why);
    } while (again);
  }

  async function once(why: string): Promise<void> {
    try {
      const { config, secrets, warnings } = await load();
      const { restart } = router.control.reload(config, secrets);
      for (const warning of warnings) error(warning);
      if (restart.length > 0) error(`reloaded, but a restart is needed for: ${restart.join(", ")}`);
    } catch (refusal) {
      const reason = refusal instanceof Error ? refusal.message : String(refusal);
      router.telemetry.log.event("error", "config_refused", { why, reason });
      error(`configuration not reloaded (${why}), the old one stays\n${reason}`);
    }
  }
}
