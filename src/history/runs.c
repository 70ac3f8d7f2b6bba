// SPDX-License-Identifier: Apache-2.0
/*
 * Which sandboxes ran when. A run begins and ends in memory, and is written with the next batch, so
 * that no create waits for it. One that is lost by a kill begins again when its sandbox is taken
 * up.
 */
#include "history/history_private.h"

#include <stdio.h>
#include <string.h>

static void run_free(struct history *h, struct run *run)
{
	if (run->is_open)
		HASH_DEL(h->runs, run);
	list_remove(&run->link);
	free(run->name);
	free(run->template);
	free(run);
}

static struct run *run_new(struct history *h, const char *project_id, const char *sandbox_id,
                           const char *name, const char *template)
{
	struct run *run = xnew0(struct run);

	(void)snprintf(run->project_id, sizeof(run->project_id), "%s", project_id);
	(void)snprintf(run->sandbox_id, sizeof(run->sandbox_id), "%s", sandbox_id);
	run->name = xstrdup(name);
	run->template = xstrdup(template);
	run->ended_us = HISTORY_RUNS_ON;
	run->is_open = true;
	list_init(&run->link);
	HASH_ADD_STR(h->runs, sandbox_id, run);
	return run;
}

static struct run *find_open(const struct history *h, const char *sandbox_id)
{
	struct run *run = NULL;

	HASH_FIND_STR(h->runs, sandbox_id, run);
	return run;
}

static void make_due(struct history *h, struct run *run)
{
	if (!list_empty(&run->link))
		return;
	list_append(&h->runs_due, &run->link);
	h->n_runs_due++;
}

void history_run_began(struct history *h, const struct history_run *began)
{
	struct run *run;

	if (find_open(h, began->sandbox_id))
		return;
	run = run_new(h, began->project_id, began->sandbox_id, began->name, began->template);
	run->began_us = began->began_us;
	make_due(h, run);
}

void history_run_ended(struct history *h, const char *sandbox_id, uint64_t at_us)
{
	struct run *run = find_open(h, sandbox_id), *oldest;

	if (!run)
		return;
	run->ended_us = MIN(at_us, HISTORY_RUNS_ON - 1);
	run->is_open = false;
	HASH_DEL(h->runs, run);
	make_due(h, run);
	oldest = list_first(&h->runs_due, struct run, link);
	if (h->n_runs_due <= RUNS_WAIT_MAX || !oldest || oldest->is_open)
		return;
	h->n_runs_due--;
	run_free(h, oldest);
}

static int load_run(const struct history_run_row *row, void *arg)
{
	struct history *h = arg;
	struct run *run = run_new(h, row->project_id, row->sandbox_id, row->name, row->template);

	run->began_us = row->began_us;
	run->is_written = true;
	return 0;
}

int runs_load(struct history *h, struct err *err)
{
	int r = 0;

	for (struct project *p = h->projects; r == 0 && p; p = p->hh.next)
		r = store_history_each_run(h->store, p->id, HISTORY_RUNS_ON - 1, "", load_run, h,
		                           err);
	return r;
}

void history_each_open(struct history *h,
                       void (*fn)(const char *sandbox_id, uint64_t at_us, void *arg), void *arg)
{
	struct run *next;

	for (struct run *run = h->runs; run; run = next) {
		next = run->hh.next;
		fn(run->sandbox_id, MAX(h->alive_us, run->began_us), arg);
	}
}

int runs_write_some(struct history *h, struct err *err)
{
	struct run *run = list_first(&h->runs_due, struct run, link);
	struct history_run_row row;
	int r;

	if (!run)
		return 0;
	row = (struct history_run_row){.project_id = run->project_id,
	                               .sandbox_id = run->sandbox_id,
	                               .name = run->name,
	                               .template = run->template,
	                               .began_us = run->began_us,
	                               .ended_us = run->ended_us};
	list_remove(&run->link);
	list_append(&h->wrote_runs, &run->link);
	if (run->is_written)
		r = store_history_end_run(h->store, &row, err);
	else
		r = store_history_put_run(h->store, &row, err);
	if (r == 0 && !run->is_written)
		project_change(h, history_project(h, run->project_id), 0, 1);
	return r < 0 ? r : 1;
}

void runs_settle(struct history *h, bool is_written)
{
	list_for_each (&h->wrote_runs, struct run, run, link) {
		list_remove(&run->link);
		if (!is_written) {
			list_append(&h->runs_due, &run->link);
			continue;
		}
		h->n_runs_due--;
		run->is_written = true;
		if (!run->is_open)
			run_free(h, run);
	}
}

void runs_free(struct history *h)
{
	list_for_each (&h->runs_due, struct run, run, link)
		run_free(h, run);
	while (h->runs)
		run_free(h, h->runs);
}
