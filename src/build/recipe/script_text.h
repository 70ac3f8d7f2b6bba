// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Texts of others in a script for the shell: quoted, so that each stays one word. That is for
 * correctness, not for security: who may build may run anything in the build's sandbox.
 * What does not fit is told by the buf's own error.
 */

struct buf;

void script_put_quoted(struct buf *out, const char *text);
/* NAME='text' and a new line. */
void script_put_variable(struct buf *out, const char *name, const char *text);
