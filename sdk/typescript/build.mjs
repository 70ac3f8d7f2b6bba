// SPDX-License-Identifier: Apache-2.0
// Builds dist/esm and dist/cjs from src. The compiler takes the module kind of a file from the nearest package.json, so the
// second pass runs over a copy that says "commonjs"; there is no other difference between the two.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");
const copy = join(dist, "copy");
const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");

function compile(project, out) {
  execFileSync(process.execPath, [tsc, "-p", project, "--outDir", out], { stdio: "inherit" });
}

rmSync(dist, { recursive: true, force: true });
compile(here, join(dist, "esm"));
mkdirSync(copy, { recursive: true });
cpSync(join(here, "src"), join(copy, "src"), { recursive: true });
cpSync(join(here, "tsconfig.json"), join(copy, "tsconfig.json"));
writeFileSync(join(copy, "package.json"), '{"type": "commonjs"}\n');
compile(copy, join(dist, "cjs"));
rmSync(copy, { recursive: true });
writeFileSync(join(dist, "cjs", "package.json"), '{"type": "commonjs"}\n');
