// SPDX-License-Identifier: Apache-2.0
// In workerd, the runtime of Cloudflare's workers, which has fetch and no module of Node's.
import { smoke } from "./smoke.mjs";

export default {
  async test(_controller, { url, apiKey }) {
    await smoke({ url, apiKey });
  },
};
