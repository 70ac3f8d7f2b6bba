// SPDX-License-Identifier: Apache-2.0
/*
 * An entry is written with one pwrite() and never crosses a page, so it is there completely or not
 * at all, whenever the broker is killed. A sequence number shows which is the oldest. There is no
 * sync: after a crash of the machine the run directory is empty, and the counters are gone too.
 *
 * Anything that is not a valid entry is skipped and logged: a place in the ring fits only few
 * sequence numbers, and an entry has a sandbox's id.
 *
 * The same guest may be recorded twice, by two brokers, the second time after half of its cgroups
 * were removed. Then the larger of two figures is the true one.
 */
#include "broker/finals.h"

#include "base/id.h"
#include "base/log.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define BATCH 64
#define LOST  "what sandboxes used that ended while the daemon was away"

/* The charged figures of struct guest_usage. The order is fixed: an older daemon may have written
 * them. */
struct figures {
	uint64_t cpu_ns, memory_bytes, memory_peak_bytes, disk_bytes, pids, oom_kills, pids_refused;
};

struct entry {
	uint64_t seq; /* from 1 */
	char id[ID_SIZE];
	struct figures figures;
	uint64_t is_begin;
	char reserved[128 - 2 * sizeof(uint64_t) - ID_SIZE - sizeof(struct figures)];
};
static_assert(sizeof(struct entry) == 128, "an entry may cross a page");

static bool is_sound(const struct entry *e, size_t place)
{
	return e->seq % FINALS_KEPT == place && memchr(e->id, '\0', sizeof(e->id)) &&
	       id_is_valid(e->id, "sb") && e->is_begin <= 1;
}

/* Calls fn for each entry. Returns how many are damaged. */
static size_t each_entry(const struct finals *f, void (*fn)(const struct entry *e, void *arg),
                         void *arg)
{
	struct entry batch[BATCH];
	size_t place = 0, damaged = 0;
	ssize_t n;

	while (place < FINALS_KEPT &&
	       (n = pread(f->fd, batch, sizeof(batch), (off_t)(place * sizeof(batch[0])))) > 0) {
		size_t whole = (size_t)n / sizeof(batch[0]);

		for (size_t i = 0; i < whole; i++) {
			if (is_sound(&batch[i], place + i))
				fn(&batch[i], arg);
			else
				damaged += batch[i].seq != 0 || batch[i].id[0] != '\0';
		}
		if ((size_t)n % sizeof(batch[0]) != 0)
			return damaged + 1;
		place += whole;
	}
	return damaged;
}

static void note_seq(const struct entry *e, void *arg)
{
	uint64_t *next = arg;

	*next = MAX(*next, e->seq + 1);
}

int finals_open(struct finals *f, const char *run_dir, struct err *err)
{
	auto_free char *path = xasprintf("%s/finals", run_dir);
	size_t damaged;

	*f = (struct finals){.next_seq = 1};
	f->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (f->fd < 0 && errno != ENOENT) /* no run directory: nothing was ever kept */
		return err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", path);
	damaged = each_entry(f, note_seq, &f->next_seq);
	f->was_empty = f->next_seq == 1;
	if (damaged > 0)
		log_warn("finals.damaged", "file='%s' entries=%zu lost='%s'", path, damaged, LOST);
	return 0;
}

void finals_check(const struct finals *f)
{
	if (f->was_empty)
		log_warn("finals.damaged", "file='finals' entries=0 lost='%s'", LOST);
}

void finals_close(struct finals *f)
{
	if (f->fd >= 0)
		(void)close(take_fd(&f->fd));
}

/* If the disk is full, the last moments of a guest are not counted; nothing else is lost. */
static void put(struct finals *f, const char *id, struct entry *e)
{
	e->seq = f->next_seq++;
	(void)snprintf(e->id, sizeof(e->id), "%s", id);
	(void)!pwrite(f->fd, e, sizeof(*e), (off_t)(e->seq % FINALS_KEPT * sizeof(*e)));
}

void finals_begin(struct finals *f, const char *id)
{
	put(f, id, &(struct entry){.is_begin = 1});
}

void finals_put(struct finals *f, const char *id, const struct guest_usage *usage)
{
	put(f, id,
	    &(struct entry){.figures = {.cpu_ns = usage->cpu_ns,
	                                .memory_bytes = usage->memory_bytes,
	                                .memory_peak_bytes = usage->memory_peak_bytes,
	                                .disk_bytes = usage->disk_bytes,
	                                .pids = usage->pids,
	                                .oom_kills = usage->oom_kills,
	                                .pids_refused = usage->pids_refused}});
}

struct search {
	const char *id;
	uint64_t begin_seq; /* of its last run */
	struct guest_usage found;
};

static void note_begin(const struct entry *e, void *arg)
{
	struct search *s = arg;

	if (e->is_begin && strncmp(e->id, s->id, sizeof(e->id)) == 0)
		s->begin_seq = MAX(s->begin_seq, e->seq);
}

void finals_merge(struct guest_usage *u, const struct guest_usage *other)
{
	u->cpu_ns = MAX(u->cpu_ns, other->cpu_ns);
	u->memory_bytes = MAX(u->memory_bytes, other->memory_bytes);
	u->memory_peak_bytes = MAX(u->memory_peak_bytes, other->memory_peak_bytes);
	u->disk_bytes = MAX(u->disk_bytes, other->disk_bytes);
	u->pids = MAX(u->pids, other->pids);
	u->oom_kills = MAX(u->oom_kills, other->oom_kills);
	u->pids_refused = MAX(u->pids_refused, other->pids_refused);
}

static void merge(const struct entry *e, void *arg)
{
	struct search *s = arg;

	if (e->seq < s->begin_seq || strncmp(e->id, s->id, sizeof(e->id)) != 0)
		return;
	finals_merge(&s->found,
	             &(struct guest_usage){.cpu_ns = e->figures.cpu_ns,
	                                   .memory_bytes = e->figures.memory_bytes,
	                                   .memory_peak_bytes = e->figures.memory_peak_bytes,
	                                   .disk_bytes = e->figures.disk_bytes,
	                                   .pids = e->figures.pids,
	                                   .oom_kills = e->figures.oom_kills,
	                                   .pids_refused = e->figures.pids_refused});
}

struct guest_usage finals_find(const struct finals *f, const char *id)
{
	struct search s = {.id = id};

	each_entry(f, note_begin, &s);
	each_entry(f, merge, &s);
	return s.found;
}
