/** So long those of the new names that have been answered wait for the others. */
const HEIRS_MS = 30_000;

/** A name that has left the configuration, and its members with it, but for the new names of its pool and role. */
export interface Former<Name extends { readonly answered: boolean }> {
  readonly name: Name;
  /** They may list its members, once they are answered. */
  heirs: readonly Name[];
  readonly since: number;
}

/** Whether it is known who of the members is wanted. While no heir is answered nobody leaves: a lookup that fails changes nothing. */
export function isSettled({ heirs, since }: Former<{ readonly answered: boolean }>, now: number): boolean {
  const answered = heirs.filter((heir) => heir.answered).length;
  return answered === heirs.length || (answered > 0 && now - since >= HEIRS_MS);
}
