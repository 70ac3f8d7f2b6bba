// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics: the readings that the sandbox's meter has kept (of the last quarter of an hour or more,
 * since the daemon's start), and one that is taken on request. CPU is given as in E2B: as a part of
 * what the sandbox may use, since the reading before.
 */
#include "compat/e2b/frame/objects.h"

#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "base/clock.h"
#include "compat/e2b/frame/find.h"

#include <stdio.h>
#include <string.h>

#define SLACK_US  1000000 /* ranges are given in whole seconds */
#define BATCH_MAX 100     /* sandboxes of one call, as in E2B */

struct sampling {
	struct late_reply late;
	uint64_t from_us, to_us;
};

struct reel { /* readings on their way into a reply */
	struct json_writer *w;
	struct sandbox_facts facts;
	uint64_t from_us, to_us;
	const char *name;              /* of the one that is wanted, in an object; or NULL */
	uint64_t last_us, last_cpu_ns; /* of the reading before */
};

static void put_sample(struct reel *reel, const struct sandbox_sample *sample)
{
	const struct guest_limits *limits = &reel->facts.limits;
	uint64_t span_us = sample->at_us > reel->last_us ? sample->at_us - reel->last_us : 1;
	uint64_t cpu_ns =
		sample->cpu_ns > reel->last_cpu_ns ? sample->cpu_ns - reel->last_cpu_ns : 0;
	struct json_writer *w = reel->w;

	reel->last_us = sample->at_us;
	reel->last_cpu_ns = sample->cpu_ns;
	if (sample->at_us < reel->from_us || sample->at_us > reel->to_us + SLACK_US)
		return;
	json_open_object(w, reel->name);
	e2b_put_time(w, "timestamp", sample->at_us);
	json_put_u64(w, "timestampUnix", sample->at_us / 1000000);
	json_put_u64(w, "cpuCount", (limits->cpu_milli + 999) / 1000);
	json_put_double(w, "cpuUsedPct",
	                (double)cpu_ns * 100 / (double)span_us / (double)limits->cpu_milli);
	json_put_u64(w, "memUsed", sample->memory_bytes);
	json_put_u64(w, "memTotal", limits->memory_bytes);
	json_put_u64(w, "memCache", 0);
	json_put_u64(w, "diskUsed", sample->disk_bytes);
	json_put_u64(w, "diskTotal", limits->disk_bytes);
	json_close_object(w);
}

static void put_samples(struct reel *reel, const struct sandbox *s)
{
	struct sandbox_figures f;
	struct sandbox_sample now;

	sandbox_latest(s, &f);
	now = (struct sandbox_sample){.at_us = f.at_us,
	                              .cpu_ns = f.total.of[USAGE_CPU_NS],
	                              .memory_bytes = f.now.memory_bytes,
	                              .disk_bytes = f.now.files_bytes};
	sandbox_facts(s, &reel->facts);
	reel->last_us = reel->facts.created_us;
	for (size_t i = 0; i < sandbox_n_samples(s); i++)
		put_sample(reel, sandbox_sample_at(s, i));
	if (f.is_live && now.at_us > reel->last_us)
		put_sample(reel, &now);
}

static void on_figures(struct sandbox *s, const struct sandbox_figures *f, const struct err *err,
                       void *arg)
{
	const struct sampling sampling = *(struct sampling *)arg;
	struct http_req *req = late_reply_take(arg, err);
	struct reel reel = {.from_us = sampling.from_us, .to_us = sampling.to_us};
	struct reply reply;

	(void)f;
	if (!req)
		return;
	reel.w = reply_begin_bare(&reply);
	json_open_array(reel.w, NULL);
	if (s)
		put_samples(&reel, s);
	json_close_array(reel.w);
	reply_send_late(&reply, req, 200);
}

int e2b_get_metrics(struct http_req *req, struct err *err)
{
	uint64_t start = 0, end = UINT32_MAX;
	struct sampling *sampling;
	struct sandbox *s;
	int r = http_query_u64(req, "start", 0, UINT32_MAX, &start, err);

	if (r == 0)
		r = http_query_u64(req, "end", 0, UINT32_MAX, &end, err);
	if (r == 0)
		r = e2b_find(req, &s, err);
	if (r < 0)
		return r;
	sampling = late_reply_new(req, sizeof(*sampling));
	sampling->from_us = start * 1000000;
	sampling->to_us = end * 1000000;
	r = sandbox_usage(s, on_figures, sampling, err);
	return r < 0 ? late_reply_drop(sampling, r) : r;
}

/* The newest reading that is kept; a sandbox has none before its first. */
static void put_newest(struct json_writer *w, const struct sandbox *s)
{
	const size_t n = sandbox_n_samples(s);
	const struct sandbox_sample *newest = n > 0 ? sandbox_sample_at(s, n - 1) : NULL;
	struct reel reel = {.w = w, .to_us = UINT64_MAX - SLACK_US};
	char id[E2B_ID_SIZE];

	if (!newest)
		return;
	e2b_id(s, id);
	reel.name = id;
	sandbox_facts(s, &reel.facts);
	reel.last_us = n > 1 ? sandbox_sample_at(s, n - 2)->at_us : reel.facts.created_us;
	reel.last_cpu_ns = n > 1 ? sandbox_sample_at(s, n - 2)->cpu_ns : 0;
	put_sample(&reel, newest);
}

/* "ID,ID,…". One that is not there is left out, as is one of another project. */
int e2b_get_batch_metrics(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *at = http_query(req, "sandbox_ids");
	struct json_writer *w;
	struct reply reply;
	unsigned n = 0;

	if (!at || !*at)
		return err_field(err, "sandbox_ids", "is required");
	for (const char *c = at; *c; c++)
		n += *c == ',';
	if (n >= BATCH_MAX)
		return err_field(err, "sandbox_ids", "are at most %d", BATCH_MAX);
	w = reply_begin(&reply);
	json_open_object(w, "sandboxes");
	for (const char *end; *at; at = end + (*end == ',')) {
		auto_free char *name = NULL;
		const struct sandbox *s;
		char id[ID_SIZE];

		end = at + strcspn(at, ",");
		name = xasprintf("%.*s", (int)(end - at), at);
		e2b_native_id(name, id);
		s = id[0] ? sandbox_find(api->fleet, caller_project(req), id) : NULL;
		if (s && e2b_is_there(s))
			put_newest(w, s);
	}
	json_close_object(w);
	return reply_send(&reply, req, 200, err);
}
