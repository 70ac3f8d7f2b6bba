#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A real Jupyter kernel, for comparison: cells as a JSON list on stdin, what each gave as a JSON list on stdout.

A program of its own, run by Debian's Python: the tests' virtual environment has no Jupyter.
"""

import json
import os
import subprocess
import sys

TIMEOUT_S = 60


def run_cell(client, code):
    """{"stdout", "stderr", "results": [{mime: value}], "error": {"name", "message", "traceback"} or None}"""
    id = client.execute(code, stop_on_error=False)  # else the next cell, if it comes soon, is dropped
    cell = {"stdout": "", "stderr": "", "results": [], "error": None}
    for message in messages_of(client.get_iopub_msg, id):
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            cell[content["name"]] += content["text"]
        elif kind in ("execute_result", "display_data"):
            cell["results"].append(content["data"])
        elif kind == "status" and content["execution_state"] == "idle":
            break
    reply = next(messages_of(client.get_shell_msg, id))["content"]
    if reply["status"] == "error":
        cell["error"] = {"name": reply["ename"], "message": reply["evalue"], "traceback": "\n".join(reply["traceback"])}
    return cell


def messages_of(get, id):
    while True:
        message = get(timeout=TIMEOUT_S)
        if message["parent_header"].get("msg_id") == id:
            yield message


def main():
    from jupyter_client import KernelManager

    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=TIMEOUT_S)
        json.dump([run_cell(client, code) for code in json.load(sys.stdin)], sys.stdout)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
