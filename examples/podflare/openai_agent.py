# SPDX-License-Identifier: Apache-2.0
"""An agent of OpenAI's Agents SDK that runs code in a sandbox.

OPENAI_API_KEY=… python openai_agent.py "what is 111 * 111?"
"""

import asyncio
import sys

from agents import Agent, Runner
from cloche.integrations.openai_agents import cloche_code_interpreter


async def main():
    interpreter = cloche_code_interpreter()
    agent = Agent(
        name="assistant",
        instructions="Use the run_code tool to answer data questions.",
        tools=[interpreter],
    )
    try:
        result = await Runner.run(agent, sys.argv[1] if len(sys.argv) > 1 else "what is 111 * 111?")
        print(result.final_output)
    finally:
        interpreter.code_tool.close()


asyncio.run(main())
