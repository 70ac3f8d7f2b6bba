# SPDX-License-Identifier: Apache-2.0
"""A loop over Anthropic's Messages API whose model runs code in a sandbox.

    ANTHROPIC_API_KEY=… python anthropic_loop.py "Summarize the numbers from 1 to 100."

Anthropic runs `code_execution` on its own machines when that is declared, and then no block comes here: the tool that is declared is
run_code, one of yours.
"""

import sys

from anthropic import Anthropic
from cloche import Sandbox
from cloche.integrations.anthropic import handle_code_execution_tool_use, run_code_tool

client = Anthropic()

with Sandbox() as sbx:
    messages = [{"role": "user", "content": sys.argv[1] if len(sys.argv) > 1 else "Summarize the numbers from 1 to 100."}]
    while True:
        resp = client.messages.create(
            model="claude-opus-4-7",
            max_tokens=2048,
            tools=[run_code_tool()],
            messages=messages,
        )
        messages.append({"role": "assistant", "content": resp.content})
        if resp.stop_reason != "tool_use":
            break
        results = [handle_code_execution_tool_use(b, sbx) for b in resp.content if b.type == "tool_use"]
        messages.append({"role": "user", "content": results})
    print(resp.content[0].text)
