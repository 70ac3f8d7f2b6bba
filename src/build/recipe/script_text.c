// SPDX-License-Identifier: Apache-2.0
#include "build/recipe/script_text.h"

#include "base/buf.h"

void script_put_quoted(struct buf *out, const char *text)
{
	(void)!buf_append(out, "'", 1);
	for (; *text; text++) {
		if (*text == '\'')
			(void)!buf_append(out, "'\\''", 4);
		else
			(void)!buf_append(out, text, 1);
	}
	(void)!buf_append(out, "'", 1);
}

void script_put_variable(struct buf *out, const char *name, const char *text)
{
	(void)!buf_printf(out, "%s=", name);
	script_put_quoted(out, text);
	(void)!buf_append(out, "\n", 1);
}
