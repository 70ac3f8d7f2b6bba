// SPDX-License-Identifier: Apache-2.0
import { clocheProvider } from "cloche/eve";
import { defineSandbox } from "eve/sandbox";
import { defineSandboxProvider } from "eve/sandbox/provider";

export const environment = defineSandboxProvider(clocheProvider).environment({});
export default defineSandbox(() => environment.open());
