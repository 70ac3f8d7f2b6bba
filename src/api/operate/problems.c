// SPDX-License-Identifier: Apache-2.0
#include "api/operate/problems.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "cluster/word.h"
#include "sandbox/network/network.h"
#include "secret/secret.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOOK_US        (5 * SECOND_US)
#define SILENT_US      (10 * SECOND_US) /* without a sign of life, though one was asked for */
#define COLLECTOR_US   (30 * SECOND_US)
#define TRY_US         (30 * SECOND_US) /* between two writes that only show that one works */
#define FAILURES_LEAST 5                /* creates, in the time that is looked at */
#define POOL_FAILURES  3
#define ZYGOTE_DEATHS  5
#define SINK_FAILURES  3
#define WINDOW_LOOKS   24 /* creates of two minutes */
#define MESSAGE_SIZE   700

struct counts {
	uint64_t creates, failed;
};

struct state {
	bool is_on;
	uint64_t since_us; /* wall clock */
	char message[MESSAGE_SIZE];
};

struct problems {
	struct problems_config config;
	struct loop_timer *timer;
	struct counts window[WINDOW_LOOKS]; /* a ring, of the last looks */
	size_t n_looks;
	bool is_asked;        /* somebody wants to know */
	uint64_t tried_us;    /* a write; by the loop's clock */
	struct state *states; /* of each row */
};

/* The checks: true while the problem is there, and what is wrong. */

static bool is_database_failing(struct problems *p, char *message)
{
	char what[MESSAGE_SIZE - 64];

	if (!store_is_failing(p->config.store, what, sizeof(what)))
		return false;
	(void)snprintf(message, MESSAGE_SIZE, "the database fails: %s", what);
	return true;
}

static bool are_layers_read_only(struct problems *p, char *message)
{
	(void)snprintf(message, MESSAGE_SIZE,
	               "the filesystem of the sandboxes' files (DATA/layers) is read-only");
	return fleet_is_ready(p->config.fleet) &&
	       (fleet_host(p->config.fleet)->probe.condition.layers_are_read_only ||
	        fleet_disk(p->config.fleet)->state == DISK_READ_ONLY);
}

static bool is_disk_full(struct problems *p, char *message)
{
	struct err err = {0};

	if (!fleet_is_ready(p->config.fleet) || fleet_disk(p->config.fleet)->state != DISK_FULL ||
	    fleet_check_disk(p->config.fleet, &err) == 0)
		return false;
	(void)snprintf(message, MESSAGE_SIZE, "%.*s", MESSAGE_SIZE - 1, err.message);
	return true;
}

static bool is_silent(const char *name, uint64_t us, char *message)
{
	(void)snprintf(message, MESSAGE_SIZE, "the %s has not answered for %" PRIu64 " s", name,
	               us / SECOND_US);
	return us >= SILENT_US;
}

static bool is_broker_stuck(struct problems *p, char *message)
{
	return is_silent("broker", fleet_broker_silent_us(p->config.fleet), message);
}

static bool is_wall_stuck(struct problems *p, char *message)
{
	return is_silent("network wall", fleet_wall_silent_us(p->config.fleet), message);
}

static bool is_dialer_stuck(struct problems *p, char *message)
{
	return is_silent("dialer", dialer_silent_us(p->config.dialer), message);
}

/* Half of those of the last two minutes. A create that is refused for what it asks is none. */
static bool are_creates_failing(struct problems *p, char *message)
{
	const struct counts *oldest = &p->window[p->n_looks % WINDOW_LOOKS];
	const struct fleet_counts *now = fleet_counts(p->config.fleet);
	uint64_t creates = now->creates - oldest->creates;
	uint64_t failed = now->creates_failed - oldest->failed;

	(void)snprintf(message, MESSAGE_SIZE,
	               "%" PRIu64 " of the last %" PRIu64 " creates have failed", failed, creates);
	return failed >= FAILURES_LEAST && 2 * failed >= creates;
}

static bool is_pool_failing(struct problems *p, char *message)
{
	struct pool_figures pool;

	fleet_pool(p->config.fleet, &pool);
	(void)snprintf(message, MESSAGE_SIZE,
	               "the pool cannot be filled: %u failures one after the other", pool.failures);
	return pool.failures >= POOL_FAILURES;
}

static bool are_zygotes_dying(struct problems *p, char *message)
{
	uint32_t deaths = fleet_is_ready(p->config.fleet)
	                          ? fleet_host(p->config.fleet)->probe.condition.zygote_deaths
	                          : 0;

	(void)snprintf(message, MESSAGE_SIZE, "the warm Python has died %" PRIu32 " times in a row",
	               deaths);
	return deaths >= ZYGOTE_DEATHS;
}

/* What was sealed under a key that is not in the key file. */
static bool is_key_lost(struct problems *p, char *message)
{
	size_t secrets = secrets_count_locked(p->config.secrets);
	size_t hooks = hooks_count_locked(p->config.hooks);
	size_t policies = network_count_locked(p->config.fleet);

	(void)snprintf(message, MESSAGE_SIZE,
	               "a key is not in the key file: secrets that are locked: %zu, webhooks that "
	               "wait: %zu, sandboxes whose policy is locked: %zu",
	               secrets, hooks, policies);
	return secrets + hooks + policies > 0;
}

/* Where the daemon tells of itself. Sandboxes do not need it. */
static bool is_collector_failing(struct problems *p, char *message)
{
	char why[MESSAGE_SIZE - 64] = "";
	uint64_t us = telemetry_failing_us(p->config.telemetry, why, sizeof(why));

	(void)snprintf(message, MESSAGE_SIZE,
	               "the collector has taken nothing for %" PRIu64 " s: %s", us / SECOND_US,
	               why);
	return us >= COLLECTOR_US;
}

static bool is_login_failing(struct problems *p, char *message)
{
	const char *why = "";
	uint64_t since_us = p->config.provider ? provider_silent_us(p->config.provider, &why) : 0;

	(void)snprintf(message, MESSAGE_SIZE, "the login provider cannot be used: %.150s", why);
	return since_us != 0;
}

/* The member has a sentence and a command for each trouble; that it only begins is none. */
static bool is_cluster_failing(struct problems *p, char *message)
{
	const struct cluster_word *w = p->config.cluster;

	if (!w->code[0] || strcmp(w->code, "starting") == 0)
		return false;
	(void)snprintf(message, MESSAGE_SIZE, "%s: %s%s%s", w->code, w->message,
	               w->hint[0] ? "; do this first: " : "", w->hint);
	return true;
}

static bool is_sink_failing(bool is_there, const struct sink_status *s, char *message)
{
	if (!is_there || s->failures < SINK_FAILURES)
		return false;
	(void)snprintf(message, MESSAGE_SIZE,
	               "the audit log is not sent, %" PRIu64 " entries wait: %.160s", s->waiting,
	               s->why);
	return true;
}

static bool is_audit_store_failing(struct problems *p, char *message)
{
	struct sink_status s;

	return is_sink_failing(audit_sinks_objects(p->config.audit, &s), &s, message);
}

static bool is_audit_syslog_failing(struct problems *p, char *message)
{
	struct sink_status s;

	return is_sink_failing(audit_sinks_syslog(p->config.audit, &s), &s, message);
}

/* clang-format off */
static const struct {
	const char *code;
	bool (*check)(struct problems *p, char *message);
	bool blocks; /* no new work can be taken */
	const char *hint;
} rows[] = {
	{"database_failing", is_database_failing, true, "make room on the disk of DATA/gateway, or see `dmesg` for what is wrong with it; writes are tried again every few seconds"},
	{"layers_read_only", are_layers_read_only, true, "see `dmesg | grep -i btrfs`: make room on the disk of DATA, then stop and start the daemon"},
	{"host_disk_full",   is_disk_full,        true,  "make room on the disk of DATA, or delete sandboxes, snapshots, volumes or templates; what runs goes on"},
	{"broker_stuck",     is_broker_stuck,     true,  "see the daemon's log and `dmesg` for a disk that hangs; the broker is replaced after the setting `watchdog`"},
	{"wall_stuck",       is_wall_stuck,       false, "see the daemon's log; the wall is replaced after the setting `watchdog`, and sandboxes reach nothing until then"},
	{"dialer_stuck",     is_dialer_stuck,     false, "see the daemon's log; the dialer is replaced after the setting `watchdog`, and webhooks wait until then"},
	{"creates_failing",  are_creates_failing, false, "see `cloche events --all --type sandbox.ended` for their causes, and `cloche doctor` for what the host lacks"},
	{"pool_failing",     is_pool_failing,     false, "see `pool.failed` in the daemon's log for why; sandboxes are made when they are asked for, and take longer"},
	{"zygotes_dying",    are_zygotes_dying,   false, "see `zygote.ended` and `zygote.failed` in the daemon's log; a module of `warm_modules` may crash at its import"},
	{"key_lost",         is_key_lost,         false, "put the file of the setting `secrets.key_file` back and restart the daemon; or set the secrets, webhooks' secrets and policies again: `cloche secret ls`, `cloche webhook ls` and `network.locked` in the daemon's log name them"},
	{"collector_failing", is_collector_failing, false, "see that a collector takes OTLP over HTTP at the setting `telemetry.otlp_url`, and what it wants in `telemetry.headers_file`; what waits too long is dropped (cloche_otlp_dropped_total)"},
	{"login_failing",    is_login_failing,    false, "look at the provider, and at `login.provider_silent` in the daemon's log; whoever is logged in stays so for an hour, and keys and `cloche dashboard` open as before"},
	{"cluster_failing", is_cluster_failing, false, "do what the message says, or see `cloche cluster status` on this machine; sandboxes and calls to them go on, names, quotas and keys of the cluster wait"},
	{"audit_store_failing",  is_audit_store_failing,  false, "see that the store of the setting `audit.s3_url` runs, that its bucket is there and that the keys of `audit.s3_credentials` may put objects; it is tried again every minute, and entries wait as long as `events.age`, `events.size` and `events.count` keep them"},
	{"audit_syslog_failing", is_audit_syslog_failing, false, "see that the server of the setting `audit.syslog_url` runs and, for tls://, that this host trusts its certificate; it is tried again every minute, and entries wait as long as `events.age`, `events.size` and `events.count` keep them"},
};
/* clang-format on */

static void tell(struct problems *p, size_t i)
{
	const struct state *s = &p->states[i];
	enum event_type type = s->is_on ? EVENT_DAEMON_PROBLEM_BEGAN : EVENT_DAEMON_PROBLEM_ENDED;
	struct json_writer *w;
	struct event e;

	if (s->is_on)
		log_error("daemon.problem_began", "code=%s error='%s' hint='%s'", rows[i].code,
		          s->message, rows[i].hint);
	else
		log_info("daemon.problem_ended", "code=%s", rows[i].code);
	w = event_begin(&e, p->config.events, type, NULL, NULL);
	json_put_str(w, "code", rows[i].code);
	if (s->is_on)
		event_put_text(w, "message", s->message);
	event_end(&e);
}

static void look_at(struct problems *p, size_t i)
{
	struct state *s = &p->states[i];
	bool was_on = s->is_on;

	s->is_on = rows[i].check(p, s->message);
	if (s->is_on == was_on)
		return;
	if (s->is_on)
		s->since_us = clock_wall_us();
	tell(p, i);
}

void problems_ask(struct problems *p)
{
	p->is_asked = true;
}

/* Where somebody asks, a write is tried though nothing has failed: maybe nobody else writes. */
static void look_at_database(struct problems *p)
{
	uint64_t now_us = loop_now_us(p->config.loop);
	bool is_due = p->is_asked && now_us - p->tried_us >= TRY_US;

	if (is_due) {
		p->is_asked = false;
		p->tried_us = now_us;
	}
	store_look(p->config.store, is_due);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct problems *p = arg;
	const struct fleet_counts *counts = fleet_counts(p->config.fleet);

	(void)loop;
	fleet_ping(p->config.fleet);
	dialer_ping(p->config.dialer);
	look_at_database(p);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		look_at(p, i);
	p->window[p->n_looks++ % WINDOW_LOOKS] =
		(struct counts){.creates = counts->creates, .failed = counts->creates_failed};
	loop_timer_set_in(p->timer, LOOK_US);
}

struct problems *problems_new(const struct problems_config *config)
{
	struct problems *p = xnew0(struct problems);

	p->config = *config;
	p->states = xnew0n(struct state, ARRAY_SIZE(rows));
	p->timer = loop_timer_new(config->loop, on_timer, p);
	p->tried_us = loop_now_us(config->loop); /* at the start it was */
	loop_timer_set_in(p->timer, LOOK_US);
	return p;
}

void problems_free(struct problems *p)
{
	if (!p)
		return;
	loop_timer_free(p->timer);
	free(p->states);
	free(p);
}

size_t problems_count(const struct problems *p)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		n += p->states[i].is_on;
	return n;
}

bool problems_block(const struct problems *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (p->states[i].is_on && rows[i].blocks)
			return true;
	return false;
}

void problems_to_json(const struct problems *p, struct json_writer *w, const char *name)
{
	json_open_array(w, name);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!p->states[i].is_on)
			continue;
		json_open_object(w, NULL);
		json_put_str(w, "code", rows[i].code);
		json_put_str(w, "message", p->states[i].message);
		json_put_str(w, "hint", rows[i].hint);
		json_put_u64(w, "since_us", p->states[i].since_us);
		json_close_object(w);
	}
	json_close_array(w);
}

int problems_refuse(const struct problems *p, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!p->states[i].is_on || !rows[i].blocks)
			continue;
		(void)err_set(err, ERR_UNAVAILABLE, 0, "%s: %s", rows[i].code,
		              p->states[i].message);
		return err_hint(err, "%s", rows[i].hint);
	}
	return 0;
}

void problems_to_metrics(const struct problems *p, struct metrics *m)
{
	metrics_family(m, "cloche_problem", METRIC_GAUGE, "1 while a problem is there, by code.");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct metric_label code = {"code", rows[i].code};

		metrics_put(m, "cloche_problem", &code, 1, p->states[i].is_on);
	}
}
