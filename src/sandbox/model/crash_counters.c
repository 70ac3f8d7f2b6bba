// SPDX-License-Identifier: Apache-2.0
/*
 * The file is an array, written a slot at a time without a sync. It survives a killed process;
 * after a power cut, the things that it is about are gone anyway. So a call of code costs only a
 * few writes to the page cache, where a row of the store would be a transaction. No slot crosses a
 * page, so none is ever half written.
 *
 * The first slot is a mark, which shows whether a file lost its contents or never had any. A slot
 * with a number and no id is damaged. Both are logged, and the rest is used.
 */
#include "sandbox/model/crash_counters.h"

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "sandbox/model/sandbox_private.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SLOTS_MAX 65536
#define SLOT_SIZE 64
#define MARK      0 /* the slot */
#define MARK_ID   "jots"

struct slot { /* as in the file */
	uint64_t number;
	char id[SLOT_SIZE - sizeof(uint64_t)];
};
static_assert(sizeof(struct slot) == SLOT_SIZE && sizeof((struct slot){0}.id) >= ID_SIZE,
              "an id does not fit");

struct crash_counters {
	int fd;
	struct slot *slots;
	bool *is_taken;
	size_t n;
	bool has_failed; /* and was told so */
};

static void grow(struct crash_counters *j, size_t n)
{
	j->slots = xrealloc(j->slots, n * sizeof(*j->slots));
	j->is_taken = xrealloc(j->is_taken, n * sizeof(*j->is_taken));
	memset(j->slots + j->n, 0, (n - j->n) * sizeof(*j->slots));
	memset(j->is_taken + j->n, 0, (n - j->n) * sizeof(*j->is_taken));
	j->n = n;
}

static void write_slot(struct crash_counters *j, int slot)
{
	const struct slot *s = &j->slots[slot];
	ssize_t n = pwrite(j->fd, s, sizeof(*s), (off_t)slot * (off_t)sizeof(*s));

	/* The call goes on; its timeout or count is lost only if the gateway dies meanwhile. */
	if (n != (ssize_t)sizeof(*s) && !j->has_failed)
		log_error("crash_counters.not_written", "error='%s'",
		          n < 0 ? strerror(errno) : "short");
	j->has_failed = n != (ssize_t)sizeof(*s);
}

static bool is_mark(const struct slot *s)
{
	return s->number == 1 && strcmp(s->id, MARK_ID) == 0;
}

/* Whether the slot's id has one of the prefixes that are used here. */
static bool is_sound(const struct slot *s)
{
	return s->number == 0 || is_mark(s) || id_is_valid(s->id, "sb") ||
	       id_is_valid(s->id, "ctx");
}

/* Clears damaged slots; returns how many there were. */
static size_t drop_damaged(struct crash_counters *j)
{
	size_t n = 0;

	for (size_t i = 0; i < j->n; i++) {
		if (is_sound(&j->slots[i]))
			continue;
		j->slots[i] = (struct slot){0};
		write_slot(j, (int)i);
		n++;
	}
	return n;
}

/* An older release had no mark: the slot in its place is moved. */
static void put_mark(struct crash_counters *j)
{
	struct slot first = {0};

	if (j->n == 0)
		grow(j, 1);
	if (!is_mark(&j->slots[MARK]))
		first = j->slots[MARK];
	j->is_taken[MARK] = true;
	j->slots[MARK] = (struct slot){.number = 1, .id = MARK_ID};
	write_slot(j, MARK);
	if (first.number != 0) {
		size_t at = j->n;

		grow(j, at + 1);
		j->slots[at] = first;
		write_slot(j, (int)at);
	}
}

/* Half a slot at the end is part of the damage. */
static int read_slots(struct crash_counters *j, size_t *ret_damaged)
{
	struct stat st;
	int r;

	if (fstat(j->fd, &st) < 0)
		return -errno;
	grow(j, MIN((size_t)st.st_size / sizeof(struct slot), (size_t)SLOTS_MAX - 1));
	r = j->n == 0 ? 0 : fd_read_all(j->fd, j->slots, j->n * sizeof(struct slot));
	for (size_t i = 0; i < j->n; i++)
		j->slots[i].id[sizeof(j->slots[i].id) - 1] = '\0';
	if (r < 0)
		return r;
	*ret_damaged = drop_damaged(j) + (st.st_size % SLOT_SIZE != 0);
	return ftruncate(j->fd, (off_t)(j->n * sizeof(struct slot))) < 0 ? -errno : 0;
}

int crash_counters_open(const char *path, bool is_first, struct crash_counters **ret,
                        struct err *err)
{
	struct crash_counters *j = xnew0(struct crash_counters);
	size_t damaged = 0;
	int r;

	j->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = j->fd < 0 ? -errno : read_slots(j, &damaged);
	if (r < 0) {
		crash_counters_close(j);
		return err_set(err, ERR_INTERNAL, -r, "cannot read '%s'", path);
	}
	if (damaged > 0 || (j->n == 0 && !is_first))
		log_warn("crash_counters.damaged",
		         "file='%s' slots=%zu lost='timeouts and counts of calls that ran when the "
		         "daemon ended'",
		         path, damaged);
	put_mark(j);
	*ret = j;
	return 0;
}

void crash_counters_close(struct crash_counters *j)
{
	if (!j)
		return;
	if (j->fd >= 0)
		(void)close(j->fd);
	free(j->slots);
	free(j->is_taken);
	free(j);
}

static int take_slot(struct crash_counters *j, const char *id)
{
	size_t i = 0;

	while (i < j->n && j->is_taken[i])
		i++;
	if (i == SLOTS_MAX)
		return CRASH_COUNTER_NONE;
	if (i == j->n)
		grow(j, j->n + 1);
	j->is_taken[i] = true;
	j->slots[i].number = 0;
	(void)snprintf(j->slots[i].id, sizeof(j->slots[i].id), "%s", id);
	return (int)i;
}

void crash_counter_set(struct crash_counters *j, int *slot, const char *id, uint64_t number)
{
	if (!j || (*slot == CRASH_COUNTER_NONE && number == 0))
		return;
	if (*slot == CRASH_COUNTER_NONE)
		*slot = take_slot(j, id);
	if (*slot == CRASH_COUNTER_NONE || j->slots[*slot].number == number)
		return;
	j->slots[*slot].number = number;
	write_slot(j, *slot);
}

void crash_counter_drop(struct crash_counters *j, int *slot)
{
	if (!j || *slot == CRASH_COUNTER_NONE)
		return;
	crash_counter_set(j, slot, NULL, 0);
	j->is_taken[*slot] = false;
	*slot = CRASH_COUNTER_NONE;
}

uint64_t crash_counter_find(struct crash_counters *j, const char *id, int *ret_slot)
{
	for (size_t i = 0; j && i < j->n; i++) {
		if (j->slots[i].number == 0 || strcmp(j->slots[i].id, id) != 0)
			continue;
		j->is_taken[i] = true;
		*ret_slot = (int)i;
		return j->slots[i].number;
	}
	return 0;
}

void crash_counters_sweep(struct crash_counters *j)
{
	for (size_t i = 0; j && i < j->n; i++) {
		if (j->is_taken[i] || j->slots[i].number == 0)
			continue;
		j->slots[i].number = 0;
		write_slot(j, (int)i);
	}
}
