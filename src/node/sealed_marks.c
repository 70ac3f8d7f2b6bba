// SPDX-License-Identifier: Apache-2.0
#include "node/sealed_marks.h"

#include "base/log.h"
#include "store/places/shared_marks.h"

#include <stdio.h>
#include <string.h>

#define GONE_MAX  20000
#define MARKS_MAX 250000 /* the database has fewer records */

struct sealed_marks {
	struct store *store;
	struct sealed_mark *all;
	size_t n_gone;
};

bool sealed_mark_name(struct sealed_mark *m, const char *kind, const char *id,
                      const char *project_id)
{
	return (size_t)snprintf(m->kind, sizeof(m->kind), "%s", kind) < sizeof(m->kind) &&
	       (size_t)snprintf(m->id, sizeof(m->id), "%s", id) < sizeof(m->id) &&
	       (size_t)snprintf(m->project_id, sizeof(m->project_id), "%s", project_id) <
	               sizeof(m->project_id) &&
	       snprintf(m->name, sizeof(m->name), "%s/%s", m->kind, m->id) > 0;
}

static bool is_later(uint64_t version, uint64_t changed_us, uint64_t than_version,
                     uint64_t than_changed_us)
{
	return version > than_version || (version == than_version && changed_us > than_changed_us);
}

bool sealed_mark_is_later(uint64_t version, uint64_t changed_us, const struct sealed_mark *m)
{
	return is_later(version, changed_us, m->version, m->changed_us);
}

bool sealed_mark_is_earlier(const struct sealed_mark *m)
{
	return is_later(m->there_version, m->there_changed_us, m->version, m->changed_us);
}

struct sealed_mark *sealed_marks_make(struct sealed_marks *s, const char *kind, const char *id,
                                      const char *project_id)
{
	struct sealed_mark wanted = {0}, *m = NULL;

	if (!sealed_mark_name(&wanted, kind, id, project_id))
		return NULL;
	HASH_FIND_STR(s->all, wanted.name, m);
	if (m || HASH_COUNT(s->all) >= MARKS_MAX)
		return m;
	m = xnew0(struct sealed_mark);
	*m = wanted;
	HASH_ADD_STR(s->all, name, m);
	return m;
}

static void drop(struct sealed_marks *s, struct sealed_mark *m)
{
	struct err err;

	if (s->store && store_delete_shared_mark(s->store, m->id, &err) < 0)
		log_error("cluster.mark_not_saved", "id=%s error='%s'", m->id, err.message);
	s->n_gone -= m->is_gone;
	HASH_DEL(s->all, m);
	free(m);
}

/* The oldest removal is forgotten. */
static void drop_oldest(struct sealed_marks *s)
{
	struct sealed_mark *oldest = NULL;

	for (struct sealed_mark *m = s->all; m; m = m->hh.next)
		if (m->is_gone && (!oldest || m->changed_us < oldest->changed_us))
			oldest = m;
	if (oldest)
		drop(s, oldest);
}

int sealed_marks_keep(struct sealed_marks *s, const struct sealed_mark *is, struct err *err)
{
	const struct shared_mark_row row = {.kind = is->kind,
	                                    .id = is->id,
	                                    .project_id = is->project_id,
	                                    .version = is->version,
	                                    .changed_us = is->changed_us,
	                                    .is_gone = is->is_gone};
	struct sealed_mark *m = sealed_marks_make(s, is->kind, is->id, is->project_id);
	int r = s->store ? store_put_shared_mark(s->store, &row, err) : 0;

	if (r < 0 || !m)
		return r;
	s->n_gone += (size_t)is->is_gone - (size_t)m->is_gone;
	m->version = is->version;
	m->changed_us = is->changed_us;
	m->is_gone = is->is_gone;
	m->is_said = false;
	if (s->n_gone > GONE_MAX)
		drop_oldest(s);
	return 0;
}

void sealed_marks_each(struct sealed_marks *s, bool (*fn)(struct sealed_mark *m, void *arg),
                       void *arg)
{
	for (struct sealed_mark *m = s->all; m; m = m->hh.next)
		if (!fn(m, arg))
			return;
}

void sealed_marks_begin_again(struct sealed_marks *s)
{
	for (struct sealed_mark *m = s->all; m; m = m->hh.next) {
		m->there_version = m->there_changed_us = 0;
		m->is_gone_there = m->is_said = false;
	}
}

void sealed_marks_forget_project(struct sealed_marks *s, const char *project_id)
{
	struct sealed_mark *m, *next;

	for (m = s->all; m; m = next) {
		next = m->hh.next;
		if (strcmp(m->project_id, project_id) == 0)
			drop(s, m);
	}
}

static int load_one(const struct shared_mark_row *row, void *arg)
{
	struct sealed_marks *s = arg;
	struct sealed_mark *m = sealed_marks_make(s, row->kind, row->id, row->project_id);

	if (!m)
		return 0;
	m->version = row->version;
	m->changed_us = row->changed_us;
	m->is_gone = row->is_gone;
	s->n_gone += row->is_gone;
	return 0;
}

struct sealed_marks *sealed_marks_new(struct store *store)
{
	struct sealed_marks *s = xnew0(struct sealed_marks);
	struct err err;

	s->store = store;
	if (store && store_each_shared_mark(store, load_one, s, &err) < 0)
		log_error("cluster.marks_unreadable", "error='%s'", err.message);
	return s;
}

void sealed_marks_free(struct sealed_marks *s)
{
	struct sealed_mark *m;

	while ((m = s->all)) {
		HASH_DEL(s->all, m);
		free(m);
	}
	free(s);
}
