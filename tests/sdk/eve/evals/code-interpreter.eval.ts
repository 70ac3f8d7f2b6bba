// SPDX-License-Identifier: Apache-2.0
import { defineEval } from "eve/evals";
import { includes } from "eve/evals/expect";

export default defineEval({
  description: "The median is computed by a program that runs in the sandbox, on a file that the agent brought along.",
  async test(t) {
    const turn = await t.send("What's the median of [3, 1, 4, 1, 5, 9, 2, 6]?");
    t.succeeded();
    t.calledTool("write_file");
    t.calledTool("bash");
    t.check(turn.message, includes("3.5"));
  },
});
