# SPDX-License-Identifier: Apache-2.0
"""E2B's client with what `cloche trust` has printed, and nothing else: names and TLS are its own business."""

import json
import ssl
import urllib.request

from e2b_code_interpreter import Sandbox

said = {}
with Sandbox.create(timeout=120) as sandbox:
    said["host"] = sandbox.get_host(8000)
    said["command"] = sandbox.commands.run("echo $HOME").stdout
    sandbox.files.write("x.txt", "by name")
    said["file"] = sandbox.files.read("x.txt")
    said["code"] = sandbox.run_code("6 * 7").text
    sandbox.commands.run("python3 -m http.server 8000 --bind 127.0.0.1 --directory .", background=True)
    sandbox.commands.run("until (echo > /dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.05; done", timeout=60)
    said["preview"] = urllib.request.urlopen(f"https://{said['host']}/x.txt", context=ssl.create_default_context()).read().decode()
print(json.dumps(said))
