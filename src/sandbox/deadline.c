// SPDX-License-Identifier: Apache-2.0
/*
 * The file is an array, written a slot at a time without a sync: what a killed process wrote is
 * there, and a machine that lost its power has no interpreter left that it could be about. That
 * costs a call two writes to memory, where a row of the store would be two transactions.
 */
#include "sandbox/deadline.h"

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SLOTS_MAX 65536

struct slot { /* as in the file */
	char context_id[ID_SIZE];
	uint64_t until_us;
};

struct deadlines {
	int fd;
	struct slot *slots;
	bool *is_taken;
	size_t n;
	bool has_failed; /* and was told so */
};

static void grow(struct deadlines *d, size_t n)
{
	d->slots = xrealloc(d->slots, n * sizeof(*d->slots));
	d->is_taken = xrealloc(d->is_taken, n * sizeof(*d->is_taken));
	memset(d->slots + d->n, 0, (n - d->n) * sizeof(*d->slots));
	memset(d->is_taken + d->n, 0, (n - d->n) * sizeof(*d->is_taken));
	d->n = n;
}

static int read_slots(struct deadlines *d)
{
	struct stat st;
	int r;

	if (fstat(d->fd, &st) < 0)
		return -errno;
	grow(d, MIN((size_t)st.st_size / sizeof(struct slot), (size_t)SLOTS_MAX));
	r = d->n == 0 ? 0 : fd_read_all(d->fd, d->slots, d->n * sizeof(struct slot));
	for (size_t i = 0; i < d->n; i++)
		d->slots[i].context_id[ID_SIZE - 1] = '\0';
	return r;
}

int deadlines_open(const char *path, struct deadlines **ret, struct err *err)
{
	struct deadlines *d = xnew0(struct deadlines);
	int r;

	d->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = d->fd < 0 ? -errno : read_slots(d);
	if (r < 0) {
		deadlines_close(d);
		return err_set(err, ERR_INTERNAL, -r, "cannot read '%s'", path);
	}
	*ret = d;
	return 0;
}

void deadlines_close(struct deadlines *d)
{
	if (!d)
		return;
	if (d->fd >= 0)
		(void)close(d->fd);
	free(d->slots);
	free(d->is_taken);
	free(d);
}

static void write_slot(struct deadlines *d, int slot)
{
	const struct slot *s = &d->slots[slot];
	ssize_t n = pwrite(d->fd, s, sizeof(*s), (off_t)slot * (off_t)sizeof(*s));

	/* The call goes on: what may be lost is its timeout, should the gateway die meanwhile. */
	if (n != (ssize_t)sizeof(*s) && !d->has_failed)
		log_error("deadlines.unwritten", "error='%s'", n < 0 ? strerror(errno) : "short");
	d->has_failed = n != (ssize_t)sizeof(*s);
}

static int take_slot(struct deadlines *d, const char *context_id)
{
	size_t i = 0;

	while (i < d->n && d->is_taken[i])
		i++;
	if (i == SLOTS_MAX)
		return DEADLINE_NONE;
	if (i == d->n)
		grow(d, d->n + 1);
	d->is_taken[i] = true;
	(void)snprintf(d->slots[i].context_id, ID_SIZE, "%s", context_id);
	return (int)i;
}

void deadline_set(struct deadlines *d, int *slot, const char *context_id, uint64_t until_us)
{
	if (!d || (*slot == DEADLINE_NONE && until_us == 0))
		return;
	if (*slot == DEADLINE_NONE)
		*slot = take_slot(d, context_id);
	if (*slot == DEADLINE_NONE || d->slots[*slot].until_us == until_us)
		return;
	d->slots[*slot].until_us = until_us;
	write_slot(d, *slot);
}

void deadline_drop(struct deadlines *d, int *slot)
{
	if (!d || *slot == DEADLINE_NONE)
		return;
	deadline_set(d, slot, NULL, 0);
	d->is_taken[*slot] = false;
	*slot = DEADLINE_NONE;
}

uint64_t deadline_find(struct deadlines *d, const char *context_id, int *ret_slot)
{
	for (size_t i = 0; d && i < d->n; i++) {
		if (d->slots[i].until_us == 0 || strcmp(d->slots[i].context_id, context_id) != 0)
			continue;
		d->is_taken[i] = true;
		*ret_slot = (int)i;
		return d->slots[i].until_us;
	}
	return 0;
}

void deadlines_sweep(struct deadlines *d)
{
	for (size_t i = 0; d && i < d->n; i++) {
		if (d->is_taken[i] || d->slots[i].until_us == 0)
			continue;
		d->slots[i].until_us = 0;
		write_slot(d, (int)i);
	}
}
