// api/[...path].mjs of a Vercel project (Node functions), with "maxDuration" as long as the longest answer.
import { createVercelHandler } from "prefill-router/vercel";

const { PREFILL, DECODE } = process.env;
const pool = { engine: "sglang", prefill: [{ url: PREFILL }], decode: [{ url: DECODE }] };
const handler = createVercelHandler({ config: { models: [{ id: "sg", pools: [pool] }] } });

export { handler as GET, handler as POST };
