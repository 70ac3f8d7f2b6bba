// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Ready commands: what a template has to succeed with before its sandboxes are handed out.
 *
 * The SDKs write the usual ones themselves: waitForPort() asks `ss`, and waitForProcess() asks
 * `pgrep`. E2B installs both in every image that it builds on. Here an image stays as it is, and
 * most have neither. So the command is run by a shell in which a function stands in for the one
 * that is missing. It reads /proc.
 */

struct buf;

/* The script for `sh -c`. What does not fit is told by the buf's own error. */
void ready_put(struct buf *out, const char *ready);
