// SPDX-License-Identifier: Apache-2.0
/*
 * What is there, and the removal of what is not needed. First all is listed and counted; nothing is
 * removed while more than a part of it would go. Then batch by batch: marked, looked at once more,
 * removed.
 */
#include "member/collect/collect_private.h"

#include "base/fd.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VICTIMS_MAX 100000 /* of a round; the next one comes soon */
#define BATCH       256
#define FEW         256 /* may go whatever their part is: what a trial leaves */

static void count(struct round *r, const struct object_row *row, bool is_unneeded)
{
	if (!is_unneeded && object_filter_has(r->needed, &row->name))
		return;
	if (!is_unneeded) {
		r->n_waiting++;
		r->waiting_bytes += row->bytes;
		return;
	}
	r->n_unneeded++;
	r->unneeded_bytes += row->bytes;
	if (r->n_victims == VICTIMS_MAX)
		return;
	r->victims = round_grow(r->victims, r->n_victims, &r->room_victims, sizeof(*r->victims));
	r->victims[r->n_victims++] = (struct collect_removal){
		.name = row->name, .bytes = row->bytes, .is_manifest = r->lists_manifests};
}

static int take_rows(struct round *r, size_t n)
{
	auto_free struct object_row *rows = xnew0n(struct object_row, MAX(n, (size_t)1));
	size_t n_unneeded;

	if (pread(r->list_fd, rows, n * sizeof(*rows), 0) != (ssize_t)(n * sizeof(*rows)))
		return -EIO;
	for (size_t i = 0; i < n; i++) {
		r->n_objects++;
		r->bytes += MIN(rows[i].bytes, OBJECT_SIZE_MAX);
	}
	n_unneeded = object_collect(rows, n, r->needed, r->read_us);
	for (size_t i = 0; i < n; i++)
		count(r, &rows[i], i < n_unneeded);
	return 0;
}

static void judge(struct round *r);

static void on_listed(const struct store_result *result, void *arg)
{
	struct round *r = arg;

	if (result->trouble)
		round_fail(r, (enum trouble)result->trouble, result->message);
	else if (take_rows(r, result->len) < 0)
		round_fail(r, TROUBLE_STORE_SETTING, "a list of objects cannot be read");
	if (!round_goes_on(r))
		return;
	memcpy(r->at, result->at, sizeof(r->at));
	r->at[sizeof(r->at) - 1] = '\0';
	if (!r->at[0] && r->lists_manifests) {
		judge(r);
		return;
	}
	if (!r->at[0])
		r->lists_manifests = true;
	round_list(r);
}

void round_list(struct round *r)
{
	struct store_job job = {.op = STORE_LIST, .is_manifest = r->lists_manifests};

	if (round_keep_first(r, round_list))
		return;
	close_fd(&r->list_fd);
	r->list_fd = round_scratch(r);
	if (r->list_fd < 0) {
		round_end(r);
		return;
	}
	memcpy(job.at, r->at, sizeof(job.at));
	round_do(r, &job, r->list_fd, on_listed, r);
}

static void on_swept(const struct store_result *result, void *arg)
{
	struct round *r = arg;

	r->n_swept = result->len;
	if (result->trouble)
		round_fail(r, (enum trouble)result->trouble, result->message);
	if (round_goes_on(r))
		round_end(r);
}

static void sweep(struct round *r)
{
	const struct store_job job = {.op = STORE_SWEEP, .before_us = r->read_us - OBJECT_GRACE_US};

	round_do(r, &job, -1, on_swept, r);
}

static void next_batch(struct round *r);
static void remove_next(struct round *r);

static void on_removed(const struct store_result *result, void *arg)
{
	struct collect_slot *slot = arg;
	struct round *r = take_ptr(slot->round);

	if (result->trouble) {
		round_fail(r, (enum trouble)result->trouble, result->message);
	} else if (!result->was_there) {
		r->n_removed++;
		r->removed_bytes += r->victims[slot->at].bytes;
		r->n_objects--;
		r->bytes -= MIN(r->victims[slot->at].bytes, r->bytes);
	}
	if (!result->trouble) { /* written anew meanwhile: it does not wait any more */
		r->n_unneeded--;
		r->unneeded_bytes -= r->victims[slot->at].bytes;
	}
	if (round_goes_on(r))
		remove_next(r);
}

static void remove_next(struct round *r)
{
	for (size_t i = 0; i < COLLECT_SLOTS && r->next_victim < r->batch_end; i++) {
		struct collect_slot *slot = &r->slots[i];
		struct store_job job = {.op = STORE_REMOVE,
		                        .before_us = r->read_us - OBJECT_GRACE_US};

		if (slot->round)
			continue;
		slot->round = r;
		slot->at = r->next_victim++;
		job.name = r->victims[slot->at].name;
		job.is_manifest = r->victims[slot->at].is_manifest;
		round_do(r, &job, -1, on_removed, slot);
	}
	if (r->n_open == 0)
		next_batch(r);
}

static void next_batch(struct round *r)
{
	auto_json json_t *names = json_array();

	if (r->next_victim == r->n_victims) {
		sweep(r);
		return;
	}
	r->batch_end = MIN(r->next_victim + BATCH, r->n_victims);
	for (size_t i = r->next_victim; i < r->batch_end; i++) {
		char hex[DIGEST_HEX];

		digest_to_hex(&r->victims[i].name, hex);
		(void)json_array_append_new(names, json_string(hex));
	}
	round_mark(r, names, remove_next);
}

static void judge(struct round *r)
{
	const unsigned most = r->collect->most_percent;
	auto_free char *message = NULL;

	if (r->n_unneeded > FEW && r->n_unneeded > r->n_objects / 100 * most) {
		message = xasprintf("%llu of %llu objects are named by no row: nothing is removed "
		                    "before somebody has looked",
		                    (unsigned long long)r->n_unneeded,
		                    (unsigned long long)r->n_objects);
		round_fail(r, TROUBLE_STORE_HELD, message);
		round_end(r);
		return;
	}
	next_batch(r);
}
