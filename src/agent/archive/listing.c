// SPDX-License-Identifier: Apache-2.0
#include "agent/archive/listing.h"

#include "base/fs/dir_reader.h"

#include <stdlib.h>
#include <string.h>

void listing_add_name(struct listing *l, const char *name)
{
	if (l->n == l->room) {
		l->room = MAX(2 * l->room, (size_t)64);
		l->names = xrealloc(l->names, l->room * sizeof(*l->names));
	}
	l->names[l->n++] = xstrdup(name);
}

int listing_add(struct listing *l, int dir_fd, struct err *err)
{
	struct dir_reader dir;
	const char *name;
	int r = dir_begin(&dir, dir_fd);

	if (r < 0)
		return err_set(err, ERR_FILE_INVALID, -r, "cannot read a directory");
	while ((name = dir_next(&dir)))
		listing_add_name(l, name);
	return dir.error ? err_set(err, ERR_FILE_INVALID, -dir.error, "cannot read a directory")
	                 : 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void listing_sort(struct listing *l)
{
	size_t n = 0;

	if (l->n == 0)
		return;
	qsort(l->names, l->n, sizeof(*l->names), by_bytes);
	for (size_t i = 0; i < l->n; i++) {
		if (n > 0 && strcmp(l->names[n - 1], l->names[i]) == 0)
			free(l->names[i]);
		else
			l->names[n++] = l->names[i];
	}
	l->n = n;
}

void listing_done(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->names[i]);
	free(l->names);
}
