// SPDX-License-Identifier: Apache-2.0
/*
 * /metrics, for Prometheus: figures of the whole daemon, so for admins of the project "default", or
 * for anybody where the operator says so. Nothing of a single sandbox, project or key is in it. The
 * same go to a collector, group by group.
 */
#include "api/operate/metrics.h"
#include "api/api.h"
#include "api/frame/find.h"
#include "api/handlers.h"
#include "api/operate/problems.h"

#include "base/clock.h"
#include "base/fs/dir_reader.h"
#include "base/parse.h"
#include "tenant/create_queue.h"

#include <inttypes.h>
#include <string.h>

#define PAGE_MAX  (1024 * 1024)
#define PAGE_TYPE "text/plain; version=0.0.4; charset=utf-8"

static void put_fleet(struct metrics *m, struct fleet *fleet)
{
	const struct fleet_counts *counts = fleet_counts(fleet);
	size_t states[SANDBOX_STATE_COUNT] = {0};

	fleet_count_states(fleet, states);
	metrics_family(m, "cloche_sandboxes", METRIC_GAUGE, "Sandboxes by state.");
	for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++) {
		struct metric_label state = {"state", sandbox_state_name((enum sandbox_state)i)};

		metrics_put(m, "cloche_sandboxes", &state, 1, states[i]);
	}
	metrics_one(m, "cloche_sandboxes_alive", METRIC_GAUGE, "Sandboxes that have a place.",
	            fleet_count(fleet));
	metrics_one(m, "cloche_sandboxes_max", METRIC_GAUGE, "Places that there are in all.",
	            fleet_config(fleet)->sandboxes_max);
	metrics_one(m, "cloche_creates_total", METRIC_COUNTER, "Sandboxes asked for.",
	            counts->creates);
	metrics_one(m, "cloche_creates_failed_total", METRIC_COUNTER,
	            "Sandboxes that did not come to run.", counts->creates_failed);
	metrics_family(m, "cloche_create_seconds", METRIC_HISTOGRAM,
	               "From a create's request to a running sandbox.");
	metrics_put_histogram(m, "cloche_create_seconds", &counts->create_us);
	metrics_one(m, "cloche_execs_total", METRIC_COUNTER, "Execs started.", counts->execs);
	metrics_one(m, "cloche_code_calls_failed_total", METRIC_COUNTER,
	            "Code calls that never ran, or whose sandbox ended.", counts->code_failed);
	metrics_family(m, "cloche_code_call_seconds", METRIC_HISTOGRAM,
	               "Code calls, from their start in the interpreter to their end.");
	metrics_put_histogram(m, "cloche_code_call_seconds", &counts->code_us);
}

static void put_output(struct metrics *m, const struct fleet *fleet)
{
	metrics_one(m, "cloche_output_kept_bytes", METRIC_GAUGE, "Output of execs on disk.",
	            fleet_output_kept(fleet, NULL));
	metrics_one(m, "cloche_outputs_dropped_total", METRIC_COUNTER,
	            "Outputs of execs that went to keep within the bounds.",
	            fleet_counts(fleet)->outputs_dropped);
}

static void put_pool(struct metrics *m, const struct fleet *fleet)
{
	struct pool_figures f;

	fleet_pool(fleet, &f);
	metrics_one(m, "cloche_pool_ready", METRIC_GAUGE, "Spares that are ready.", f.ready);
	metrics_one(m, "cloche_pool_ready_vms", METRIC_GAUGE, "Spares that are ready, and are vms.",
	            f.ready_vms);
	metrics_one(m, "cloche_pool_target", METRIC_GAUGE, "Spares that there should be.",
	            f.target);
	metrics_one(m, "cloche_pool_hits_total", METRIC_COUNTER, "Creates that got a spare.",
	            f.hits);
	metrics_one(m, "cloche_pool_misses_total", METRIC_COUNTER,
	            "Creates that a spare would have fitted, when there was none.", f.misses);
}

static void put_queue(struct metrics *m, const struct fleet *fleet)
{
	struct create_queue_figures f = create_queue_figures(fleet_creates(fleet));

	metrics_one(m, "cloche_creates_waiting", METRIC_GAUGE, "Creates that wait for room.",
	            f.waiting);
	metrics_one(m, "cloche_creates_waited_total", METRIC_COUNTER,
	            "Creates that have begun to wait for room.", f.joined);
	metrics_one(m, "cloche_creates_wait_expired_total", METRIC_COUNTER,
	            "Creates that have waited for room in vain.", f.expired);
}

static void put_http(struct metrics *m, const struct api *api)
{
	static const char *const classes[] = {"", "1xx", "2xx", "3xx", "4xx", "5xx"};
	const struct http_counts *http = &api->http;
	const struct http_route *routes = api->routes;
	size_t n = api->n_routes;

	metrics_family(m, "cloche_http_requests_total", METRIC_COUNTER,
	               "Requests that are over, by route and class of status.");
	for (size_t i = 0; i <= API_ROUTES_MAX; i++) {
		for (size_t class = 1; class < ARRAY_SIZE(classes); class ++) {
			const struct metric_label labels[] = {
				{"method", i < n ? http_method_name(routes[i].method) : ""},
				{"route", i < n ? routes[i].path : ""},
				{"status", classes[class]},
			};

			if (http->requests[i][class] > 0)
				metrics_put(m, "cloche_http_requests_total", labels,
				            ARRAY_SIZE(labels), http->requests[i][class]);
		}
	}
	metrics_one(m, "cloche_http_refused_total", METRIC_COUNTER,
	            "Requests refused for want of room, with status 429 or 503.", http->refused);
	metrics_one(m, "cloche_http_reply_bytes_total", METRIC_COUNTER, "Bytes of replies.",
	            http->bytes_out);
}

static void put_loop(struct metrics *m, const struct loop *loop)
{
	struct loop_stats stats = loop_stats(loop);

	metrics_one(m, "cloche_loop_turns_total", METRIC_COUNTER, "Turns of the event loop.",
	            stats.turns);
	metrics_family(m, "cloche_loop_busy_seconds_total", METRIC_COUNTER,
	               "Time in which the event loop worked.");
	metrics_put_seconds(m, "cloche_loop_busy_seconds_total", NULL, 0, stats.busy_us);
	metrics_one(m, "cloche_loop_slow_turns_total", METRIC_COUNTER,
	            "Turns that let others wait for more than 10 ms.", stats.slow_turns);
	metrics_family(m, "cloche_loop_longest_turn_seconds", METRIC_GAUGE,
	               "The longest turn since the start.");
	metrics_put_seconds(m, "cloche_loop_longest_turn_seconds", NULL, 0, stats.longest_us);
}

/* Of each process that has a loop which others wait for. */
struct turns {
	const char *process;
	struct loop_stats stats;
};

static void put_turns(struct metrics *m, const struct turns *turns, size_t n)
{
	struct metric_label process = {.name = "process"};

	metrics_family(m, "cloche_loop_turn_cpu_seconds", METRIC_HISTOGRAM,
	               "CPU time of the event loop's turns; sum: of those over a millisecond.");
	for (size_t i = 0; i < n; i++) {
		process.value = turns[i].process;
		metrics_put_buckets(m, "cloche_loop_turn_cpu_seconds", &process, 1,
		                    &(struct metric_buckets){.bounds_us = loop_bounds_us,
		                                             .counts = turns[i].stats.by_cpu,
		                                             .n = LOOP_BOUNDS,
		                                             .sum_us = turns[i].stats.cpu_us,
		                                             .decimals = 3});
	}
	metrics_family(m, "cloche_loop_longest_turn_cpu_seconds", METRIC_GAUGE,
	               "The most CPU time that a turn has taken since the start.");
	for (size_t i = 0; i < n; i++) {
		process.value = turns[i].process;
		metrics_put_seconds(m, "cloche_loop_longest_turn_cpu_seconds", &process, 1,
		                    turns[i].stats.longest_cpu_us);
	}
}

static uint64_t count_fds(int dir_fd)
{
	struct dir_reader d;
	uint64_t n = 0;

	if (dir_fd < 0 || dir_begin(&d, dir_fd) < 0)
		return 0;
	while (dir_next(&d))
		n++;
	return n;
}

/* The second number of statm, in pages. */
static uint64_t resident_bytes(int statm_fd)
{
	char text[128] = "";
	char *words = text;
	uint64_t pages = 0;

	if (statm_fd < 0 || pread(statm_fd, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	(void)strsep(&words, " ");
	if (!words || parse_u64(strsep(&words, " "), UINT32_MAX, &pages) < 0)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void put_process(struct metrics *m, const struct api *api)
{
	const struct metric_label version = {"version", CLOCHE_VERSION};

	metrics_family(m, "cloche_build_info", METRIC_GAUGE, "1, with the daemon's version.");
	metrics_put(m, "cloche_build_info", &version, 1, 1);
	metrics_one(m, "cloche_resident_bytes", METRIC_GAUGE, "Memory of the gateway process.",
	            resident_bytes(api->proc.statm));
	metrics_one(m, "cloche_open_fds", METRIC_GAUGE, "Open files of the gateway process.",
	            count_fds(api->proc.fd_dir));
	metrics_one(m, "cloche_store_bytes", METRIC_GAUGE, "The database on disk.",
	            store_bytes(api->store));
	metrics_one(m, "cloche_history_bytes", METRIC_GAUGE, "Of that, readings of the past.",
	            history_bytes(api->history));
	metrics_family(m, "cloche_uptime_seconds", METRIC_GAUGE, "Since the gateway's start.");
	metrics_put_seconds(m, "cloche_uptime_seconds", NULL, 0, clock_wall_us() - api->started_us);
}

/* The moment, not a count: what counts may itself have been replaced, and would begin anew. */
static void put_parts(struct metrics *m, const struct api *api)
{
	metrics_family(m, "cloche_part_replaced_timestamp_seconds", METRIC_GAUGE,
	               "When a part of the daemon that died or hung was last replaced; 0: never.");
	for (size_t i = 0; i < ARRAY_SIZE(api->parts); i++) {
		const struct metric_label part = {"part", api->parts[i].name};

		metrics_put_seconds(m, "cloche_part_replaced_timestamp_seconds", &part, 1,
		                    api->parts[i].replaced_us);
	}
}

static void put_hooks(struct metrics *m, const struct hooks *hooks)
{
	struct hook_counts counts;

	hooks_count(hooks, &counts);
	metrics_one(m, "cloche_webhooks", METRIC_GAUGE, "Webhooks that there are.", counts.hooks);
	metrics_one(m, "cloche_webhooks_failing", METRIC_GAUGE,
	            "Of those, that try again because the last attempt failed.", counts.failing);
	metrics_one(m, "cloche_webhook_deliveries_total", METRIC_COUNTER,
	            "Events that a receiver has accepted.", counts.delivered);
	metrics_one(m, "cloche_webhook_failures_total", METRIC_COUNTER,
	            "Attempts that failed; each is made again later.", counts.failed);
	metrics_one(m, "cloche_webhook_dropped_total", METRIC_COUNTER,
	            "Events given up after a day of failures.", counts.dropped);
}

static void put_events(struct metrics *m, const struct event_log *events)
{
	struct event_status status;

	event_log_status(events, &status);
	metrics_one(m, "cloche_events_total", METRIC_COUNTER,
	            "Events ever written: the place of the newest one.", status.place);
	metrics_one(m, "cloche_events_kept", METRIC_GAUGE, "Events that are kept.", status.count);
	metrics_one(m, "cloche_events_bytes", METRIC_GAUGE, "And their bytes.", status.bytes);
	metrics_one(m, "cloche_events_suppressed_total", METRIC_COUNTER,
	            "Events left out because a sandbox was over its rate.", status.suppressed);
	metrics_one(m, "cloche_events_lost_total", METRIC_COUNTER,
	            "Events lost because the disk took no more.", status.lost);
}

/* Of each kind of place that the settings may send the logs to. */
static void put_audit(struct metrics *m, const struct audit_sinks *audit)
{
	static const struct {
		const char *name, *help;
		enum metric_kind kind;
		size_t at;
	} rows[] = {
		{"cloche_audit_sent_total", "Entries of both logs that were sent, by sink.",
	         METRIC_COUNTER, offsetof(struct sink_status, sent)},
		{"cloche_audit_failures_total", "Attempts that failed; each is made again later.",
	         METRIC_COUNTER, offsetof(struct sink_status, failed)},
		{"cloche_audit_waiting", "Entries that wait to be sent, give or take.",
	         METRIC_GAUGE, offsetof(struct sink_status, waiting)},
		{"cloche_audit_lost_total",
	         "Entries (of syslog: stretches of them) that were removed before they were sent.",
	         METRIC_COUNTER, offsetof(struct sink_status, lost)},
	};
	struct sink_status of[] = {{.name = "s3"}, {.name = "syslog"}};

	(void)audit_sinks_objects(audit, &of[0]);
	(void)audit_sinks_syslog(audit, &of[1]);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		metrics_family(m, rows[i].name, rows[i].kind, rows[i].help);
		for (size_t k = 0; k < ARRAY_SIZE(of); k++) {
			const struct metric_label sink = {"sink", of[k].name};
			const char *at = (const char *)&of[k] + rows[i].at;

			metrics_put(m, rows[i].name, &sink, 1, *(const uint64_t *)at);
		}
	}
}

static void put_disk(struct metrics *m, const struct host_disk *disk)
{
	metrics_family(m, "cloche_disk_state", METRIC_GAUGE,
	               "1 of the state that the host's disk is in.");
	for (uint32_t i = 0; i < DISK_STATE_COUNT; i++) {
		struct metric_label state = {"state", disk_state_name(i)};

		metrics_put(m, "cloche_disk_state", &state, 1, disk->state == i);
	}
	metrics_one(m, "cloche_disk_free_bytes", METRIC_GAUGE, "Free where the data directory is.",
	            disk->free_bytes);
	metrics_one(m, "cloche_disk_reserve_bytes", METRIC_GAUGE,
	            "Of those, kept for the daemon's own files.", disk->reserve_bytes);
	metrics_one(m, "cloche_layers_bytes", METRIC_GAUGE, "Allocated to the files of sandboxes.",
	            disk->layers_bytes);
	metrics_one(m, "cloche_layers_free_bytes", METRIC_GAUGE, "Of those, free.",
	            disk->layers_free_bytes);
}

static void put_telemetry(struct metrics *m, const struct api *api)
{
	static const struct {
		const char *name, *help;
		enum metric_kind kind;
		size_t offset;
	} rows[] = {
		{"cloche_otlp_sent_total",
	         "Data points, spans and log lines that a collector took.", METRIC_COUNTER,
	         offsetof(struct telemetry_counts, sent)},
		{"cloche_otlp_dropped_total", "Likewise, that it refused or there was no room for.",
	         METRIC_COUNTER, offsetof(struct telemetry_counts, dropped)},
		{"cloche_otlp_failures_total", "Requests to the collector that failed.",
	         METRIC_COUNTER, offsetof(struct telemetry_counts, failed)},
		{"cloche_otlp_queued", "Spans and log lines that wait to be sent.", METRIC_GAUGE,
	         offsetof(struct telemetry_counts, queued)},
	};
	struct telemetry_counts counts;

	telemetry_count(api->telemetry, &counts);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const uint64_t *of = (const void *)((const char *)&counts + rows[i].offset);

		metrics_family(m, rows[i].name, rows[i].kind, rows[i].help);
		for (unsigned k = 0; k < TELEMETRY_SIGNALS; k++) {
			const struct metric_label signal = {"signal", telemetry_signal_names[k]};

			metrics_put(m, rows[i].name, &signal, 1, of[k]);
		}
	}
	metrics_one(m, "cloche_traces_over_rate_total", METRIC_COUNTER,
	            "Requests that were not traced because their project was over its rate.",
	            counts.over_rate);
}

static void put_fleet_group(struct metrics *m, const struct api *api)
{
	put_fleet(m, api->fleet);
	put_output(m, api->fleet);
	put_pool(m, api->fleet);
	put_queue(m, api->fleet);
}

static void put_problems(struct metrics *m, const struct api *api)
{
	problems_ask(api->problems);
	problems_to_metrics(api->problems, m);
	put_disk(m, fleet_disk(api->fleet));
}

static void put_loops(struct metrics *m, const struct api *api)
{
	put_loop(m, api->loop);
	put_turns(m,
	          (struct turns[]){{"gateway", loop_stats(api->loop)},
	                           {"broker", fleet_broker_turns(api->fleet)}},
	          2);
}

static uint64_t figure(const json_t *figures, const char *name)
{
	return (uint64_t)MAX(json_integer_value(json_object_get(figures, name)), 0);
}

/* As the last collection has found it, on whichever node. */
static void put_objects(struct metrics *m, const struct api *api)
{
	static const struct metric_label stored = {"state", "stored"},
					 waiting = {"state", "waiting"};
	const json_t *f = node_objects(api->node);

	if (!f)
		return;
	metrics_family(m, "cloche_cluster_objects", METRIC_GAUGE,
	               "Objects in the cluster's store; waiting: of these, what nobody needs.");
	metrics_put(m, "cloche_cluster_objects", &stored, 1, figure(f, "objects"));
	metrics_put(m, "cloche_cluster_objects", &waiting, 1, figure(f, "waiting"));
	metrics_family(m, "cloche_cluster_objects_bytes", METRIC_GAUGE, "And their bytes.");
	metrics_put(m, "cloche_cluster_objects_bytes", &stored, 1, figure(f, "bytes"));
	metrics_put(m, "cloche_cluster_objects_bytes", &waiting, 1, figure(f, "waiting_bytes"));
	metrics_one(m, "cloche_cluster_collection_failing", METRIC_GAUGE,
	            "1: the last collection of what nobody needs there was given up.",
	            json_object_get(f, "problem") != NULL);
	metrics_family(m, "cloche_cluster_collection_timestamp_seconds", METRIC_GAUGE,
	               "When the last collection ended.");
	metrics_put_seconds(m, "cloche_cluster_collection_timestamp_seconds", NULL, 0,
	                    figure(f, "at_us"));
}

static void put_gateway(struct metrics *m, const struct api *api)
{
	put_objects(m, api);
	put_process(m, api);
	put_parts(m, api);
	put_hooks(m, api->hooks);
	put_events(m, api->events);
	put_audit(m, api->audit);
}

static void (*const groups[])(struct metrics *m, const struct api *api) = {
	put_fleet_group, put_problems, put_http, put_loops, put_gateway, put_telemetry,
};

bool metrics_put_group(const struct api *api, size_t group, struct metrics *m)
{
	groups[group](m, api);
	return group + 1 < ARRAY_SIZE(groups);
}

int get_metrics(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_call(buf_done) struct buf page = BUF_INIT(PAGE_MAX);
	struct metrics m = {.out = &page};
	size_t group = 0;
	int r = 0;

	if (!api->is_metrics_open)
		r = check_is_default(req, err);
	if (r < 0)
		return r;
	while (metrics_put_group(api, group, &m))
		group++;
	if (m.error < 0)
		return err_set(err, ERR_INTERNAL, -m.error,
		               "the figures are too long for one page");
	http_reply_header(req, "Cache-Control", "no-store");
	http_reply(req, 200, PAGE_TYPE, page.data, page.len);
	return 0;
}
