// SPDX-License-Identifier: Apache-2.0
// The whole of it: over CLOCHE_URL, over the socket that CLOCHE_SOCKET names, and by the runtime's fetch. Prints "ok".
import { smoke } from "./smoke.mjs";

await smoke({});
await smoke({ url: `unix:${process.env.CLOCHE_SOCKET}` });
await smoke({ fetch: globalThis.fetch });
console.log("ok");
