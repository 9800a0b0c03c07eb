// A function URL with invoke mode RESPONSE_STREAM. PREFILL and DECODE are the engines' addresses, reachable from the function's subnet.
import { createLambdaHandler } from "prefill-router/lambda";

const { PREFILL, DECODE } = process.env;
const pool = { engine: "sglang", prefill: [{ url: PREFILL }], decode: [{ url: DECODE }] };

export const handler = createLambdaHandler({ config: { models: [{ id: "sg", pools: [pool] }] } });
