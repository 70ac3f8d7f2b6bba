// SPDX-License-Identifier: Apache-2.0
/** All pieces, for pages. */
export * from "./chart.js";
export * from "./copy.js";
export * from "./dialog.js";
export * from "./el.js";
export * from "./format.js";
export * from "./head.js";
export * from "./sandbox.js";
export * from "./save-file.js";
export * from "./spark.js";
export * from "./states.js";
export * from "./strip.js";
export * from "./table.js";
export * from "./template.js";
export * from "./time.js";
export * from "./toast.js";
export * from "./entry.js";
