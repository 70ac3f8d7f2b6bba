// SPDX-License-Identifier: Apache-2.0
/* Lists of snapshots: in the order in which they were taken here, or in the one that is that of all
 * nodes of a cluster. */
#include "sandbox/snapshot/snapshot_private.h"

#include <string.h>

uint64_t snapshot_created_us(const struct snapshot *sn)
{
	return sn->created_us;
}

static bool matches(const struct snapshot *sn, const struct snapshot_filter *f)
{
	return strcmp(sn->project_id, f->project_id) == 0 && !sn->is_fetched &&
	       !sn->is_generation && (!f->source_id || strcmp(sn->source_id, f->source_id) == 0);
}

static int newest_first(const void *a, const void *b)
{
	const struct snapshot *x = *(const struct snapshot *const *)a,
			      *y = *(const struct snapshot *const *)b;

	if (x->created_us != y->created_us)
		return x->created_us > y->created_us ? -1 : 1;
	return strcmp(y->id, x->id);
}

static bool is_behind(const struct snapshot *sn, const struct snapshot_filter *f)
{
	if (f->after_us == 0)
		return true;
	return sn->created_us != f->after_us ? sn->created_us < f->after_us
	                                     : strcmp(sn->id, f->after_id) < 0;
}

static void list_ordered(const struct fleet *fleet, const struct snapshot_filter *f,
                         void (*fn)(const struct snapshot *sn, void *arg), void *arg,
                         bool *ret_more)
{
	const struct snapshot **found = NULL;
	size_t n = 0, size = 0;

	list_for_each (&fleet->snapshots, const struct snapshot, sn, link) {
		if (!matches(sn, f) || !is_behind(sn, f))
			continue;
		if (n == size) {
			size = size ? 2 * size : 64;
			found = xrealloc(found, size * sizeof(const struct snapshot *));
		}
		found[n++] = sn;
	}
	if (n > 1)
		qsort(found, n, sizeof(const struct snapshot *), newest_first);
	*ret_more = n > f->limit;
	for (size_t i = 0; i < MIN(n, f->limit); i++)
		fn(found[i], arg);
	free(found);
}

void snapshot_list(const struct fleet *fleet, const struct snapshot_filter *f,
                   void (*fn)(const struct snapshot *sn, void *arg), void *arg, bool *ret_more)
{
	bool is_past = f->after_id == NULL;
	size_t n = 0;

	if (f->is_ordered) {
		list_ordered(fleet, f, fn, arg, ret_more);
		return;
	}
	*ret_more = false;
	for (struct list *l = fleet->snapshots.prev; l != &fleet->snapshots; l = l->prev) {
		const struct snapshot *sn = list_entry(l, struct snapshot, link);

		if (!matches(sn, f))
			continue;
		if (!is_past) {
			is_past = strcmp(sn->id, f->after_id) == 0;
			continue;
		}
		if (n == f->limit) {
			*ret_more = true;
			return;
		}
		fn(sn, arg);
		n++;
	}
}
