// SPDX-License-Identifier: Apache-2.0
#include "base/auto.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *or_abort(void *p)
{
	if (!p) {
		static const char text[] = "cloche: out of memory\n";

		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		abort();
	}
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	return or_abort(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t size)
{
	return or_abort(realloc(p, size ? size : 1));
}

char *xstrdup(const char *s)
{
	return or_abort(strdup(s));
}

char *xstrndup(const char *s, size_t n)
{
	return or_abort(strndup(s, n));
}

char *xasprintf(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	return or_abort(text);
}
