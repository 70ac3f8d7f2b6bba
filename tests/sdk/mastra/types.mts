// SPDX-License-Identifier: Apache-2.0
// Compiles where both providers are what Mastra's types ask for.
import { Workspace, type WorkspaceFilesystem, type WorkspaceSandbox } from "@mastra/core/workspace";
import { clocheWorkspace } from "cloche/mastra";

const parts: { sandbox: WorkspaceSandbox; filesystem: WorkspaceFilesystem } = clocheWorkspace({ template: "python" });
export const workspaces = [new Workspace(parts), new Workspace(clocheWorkspace())];
