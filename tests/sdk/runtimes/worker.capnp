# SPDX-License-Identifier: Apache-2.0
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [
        MODULES
      ],
      bindings = [(name = "url", fromEnvironment = "CLOCHE_URL"), (name = "apiKey", fromEnvironment = "CLOCHE_API_KEY")],
      compatibilityDate = "2026-10-01",
      globalOutbound = "loopback",
    )),
    (name = "loopback", network = (allow = ["local"])),
  ],
);
