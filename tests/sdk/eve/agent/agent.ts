// SPDX-License-Identifier: Apache-2.0
// A code interpreter whose model follows a script: it writes a program, runs it, and says what that printed.
import { defineAgent } from "eve";
import { mockModel } from "eve/evals";

const program = "import json, statistics\nprint(statistics.median(json.load(open('numbers.json'))))\n";

export default defineAgent({
  model: mockModel({
    respond({ toolResults }) {
      if (toolResults.length === 0) return { toolCalls: [{ name: "write_file", input: { filePath: "/workspace/median.py", content: program } }] };
      if (toolResults.length === 1) return { toolCalls: [{ name: "bash", input: { command: "python3 median.py" } }] };
      return `The program says: ${JSON.stringify(toolResults[1])}`;
    },
  }),
});
