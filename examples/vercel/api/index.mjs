// api/index.mjs of a Vercel project (Node functions). Its vercel.json sends every path here: outside Next.js no file name catches paths of
// several parts. "maxDuration" there has to be as long as the longest answer.
import { createVercelHandler } from "prefill-router/vercel";

const { PREFILL, DECODE } = process.env;
const pool = { engine: "sglang", prefill: [{ url: PREFILL }], decode: [{ url: DECODE }] };
// A rewritten request keeps its path, so clients may ask at `/v1/…`, and at `/api/v1/…` as well.
const handler = createVercelHandler({ config: { models: [{ id: "sg", pools: [pool] }] }, basePath: "/api" });

export { handler as DELETE, handler as GET, handler as HEAD, handler as OPTIONS, handler as POST };
