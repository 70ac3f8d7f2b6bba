// SPDX-License-Identifier: Apache-2.0
/*
 * Two connections: one for beats alone, which must not wait behind other work, and one for the
 * rest. On the first, in this order:
 *
 *	hello --> epoch_of --> join_node --> beat, beat, beat …
 *	            ^                          |
 *	            +---- its epoch is over ---+
 *
 * Whatever fails is told (trouble.h), the connection is made anew, and the node goes on by what the
 * fence says (cluster/fence.h). Clocks are CLOCK_BOOTTIME, read where it counts: a beat is sent no
 * earlier than the time that is noted for it, and an answer has come by the time that is noted.
 */
#include "member/member.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/units.h"
#include "cluster/watch.h"
#include "member/database.h"
#include "member/directory.h"
#include "member/gateway_calls.h"
#include "member/gateway_link.h"
#include "member/papers/signing.h"
#include "member/peers/peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WATCHES      3
#define CONNECT_US   (5 * SECOND_US)
#define WORK_CALL_US (10 * SECOND_US)
#define JSON_MAX     ((size_t)200000) /* values of a directory of some thousand nodes */
#define BEATS_OF     3                /* in a fence_after: two may be lost */
#define DIRECTORY_US (5 * SECOND_US)
#define SKEW_MAX_US  (int64_t) SECOND_US
#define WARN_S       INT64_C(2592000) /* 30 days before a certificate ends */

struct watched {
	struct watch watch;
	uint64_t claimed_epoch; /* that there is nothing more to claim of */
};

struct member {
	struct member_config config;
	struct database *beats, *work;
	struct fence fence;
	struct gateway_calls calls;
	uint64_t change; /* the newest that the database knows of */
	struct fence_rules rules;
	struct loop_timer *beat, *fence_timer;
	struct watched watches[WATCHES];
	char server[64];
	char node_text[16];
	enum fence_state state;
	uint64_t state_since_us;
	enum trouble trouble;
	char message[300];
	enum trouble told_trouble;
	uint64_t answered_us, round_trip_us, sent_us;
	int64_t skew_us;
	struct gateway_link *link; /* NULL: there is no gateway */
	struct peers *peers;       /* NULL: it has no certificate */
	struct directory directory;
	uint64_t directory_asked, directory_us;
	bool has_taken_over; /* a node, since the directory was read */
	bool is_signing;
};

static const char *const state_names[] = {
	[FENCE_OUT] = "out",
	[FENCE_HELD] = "held",
	[FENCE_FENCED] = "fenced",
	[FENCE_LOST] = "lost",
};

static void ask_epoch(struct member *m);

static void tell_gateway(const struct member *m)
{
	struct cluster_word word = {.state = m->state,
	                            .node = m->config.node ? m->config.node->node : 0,
	                            .epoch = m->fence.epoch,
	                            .change = m->change};

	if (!m->link)
		return;
	(void)snprintf(word.code, sizeof(word.code), "%s", trouble_code(m->trouble));
	(void)snprintf(word.message, sizeof(word.message), "%s", m->message);
	(void)snprintf(word.hint, sizeof(word.hint), "%s", trouble_hint(m->trouble));
	gateway_link_word(m->link, &word);
}

/* Looks at the clock, and tells if the state is another one. */
static void look(struct member *m)
{
	uint64_t now_us = clock_steady_us();
	enum fence_state state = fence_state(&m->fence, &m->rules, now_us);
	uint64_t until_us = fence_until(&m->fence, &m->rules, now_us);

	loop_timer_set(m->fence_timer, until_us);
	if (state == m->state && m->trouble == m->told_trouble)
		return;
	if (state != m->state) {
		log_write(state == FENCE_HELD ? LOG_INFO : LOG_WARN, "cluster.state",
		          "state=%s before=%s node=%s epoch=%" PRIu64 " code='%s'",
		          state_names[state], state_names[m->state], m->node_text, m->fence.epoch,
		          trouble_code(m->trouble));
		m->state_since_us = now_us;
	}
	m->state = state;
	m->told_trouble = m->trouble;
	tell_gateway(m);
}

static void set_trouble(struct member *m, enum trouble trouble, const char *message)
{
	if (trouble != m->trouble && trouble != TROUBLE_NONE)
		log_warn("cluster.trouble", "code=%s message='%s' hint='%s'", trouble_code(trouble),
		         message, trouble_hint(trouble));
	m->trouble = trouble;
	(void)snprintf(m->message, sizeof(m->message), "%s", message);
	look(m);
}

static void fail_beats(struct member *m, enum trouble trouble, const char *message)
{
	database_drop_later(m->beats, trouble, message);
}

/* -1 is what no column here is. */
static int64_t number_at(const PGresult *rows, const char *column)
{
	int at = PQntuples(rows) == 1 ? PQfnumber(rows, column) : -1;
	uint64_t value;

	return at < 0 || PQgetisnull(rows, 0, at) ||
	                       parse_u64(PQgetvalue(rows, 0, at), INT64_MAX, &value) < 0
	               ? -1
	               : (int64_t)value;
}

static const char *text_at(const PGresult *rows, const char *column)
{
	int at = PQntuples(rows) == 1 ? PQfnumber(rows, column) : -1;

	return at < 0 || PQgetisnull(rows, 0, at) ? "" : PQgetvalue(rows, 0, at);
}

/* NULL: there is none. The database is not trusted: its text is read as a stranger's. */
static json_t *json_at(const PGresult *rows, const char *column)
{
	const char *text = text_at(rows, column);
	json_t *value = NULL;
	struct err err;

	return text[0] && json_parse_up_to(text, strlen(text), JSON_MAX, &value, &err) == 0 ? value
	                                                                                    : NULL;
}

/* Node and secret stand first in each call but hello. */
static int call(struct member *m, struct database *db, const char *sql, const char *const *more,
                size_t n_more, database_fn fn)
{
	const char *params[DATABASE_PARAMS_MAX] = {m->node_text, m->config.node->secret};

	for (size_t i = 0; i < n_more; i++)
		params[2 + i] = more[i];
	return database_call(db, sql, params, 2 + n_more, fn, m);
}

static void on_work_done(const struct database_answer *answer, void *arg)
{
	(void)arg;
	if (!answer->rows)
		log_warn("cluster.call_failed", "code=%s message='%s'",
		         trouble_code(answer->trouble), answer->message);
}

static void on_takeover(const struct database_answer *answer, void *arg)
{
	(void)arg;
	if (answer->rows && strcmp(text_at(answer->rows, "is_done"), "t") == 0)
		log_warn("cluster.takeover", "message='a node that was silent has lost its epoch'");
	else
		on_work_done(answer, arg);
}

/* A node that was silent for long enough loses its epoch; then, much later, all that it had. */
static void take_over(struct member *m, struct watched *w, const char *sql)
{
	char numbers[4][24];
	const char *const more[] = {numbers[0], numbers[1], numbers[2], numbers[3], m->server};

	(void)snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu64, m->fence.epoch);
	(void)snprintf(numbers[1], sizeof(numbers[1]), "%u", w->watch.node);
	(void)snprintf(numbers[2], sizeof(numbers[2]), "%" PRIu64, w->watch.epoch);
	(void)snprintf(numbers[3], sizeof(numbers[3]), "%" PRIu64, w->watch.number);
	log_warn("cluster.silent_node", "node=%u epoch=%" PRIu64 " number=%" PRIu64, w->watch.node,
	         w->watch.epoch, w->watch.number);
	if (call(m, m->work, sql, more, ARRAY_SIZE(more), on_takeover) < 0)
		return; /* with the next beat's answer */
	w->claimed_epoch = w->watch.epoch;
	m->has_taken_over = true;
}

static void judge(struct member *m, struct watched *w)
{
	uint64_t now_us = clock_steady_us();

	if (!fence_allows(m->state, FENCE_AGREE))
		return;
	if (watch_is_lost(&w->watch, &m->rules, now_us))
		take_over(m, w,
		          "SELECT cluster.lose($1::int, $2, $3::bigint, $4::int, $5::bigint, "
		          "$6::bigint, $7) AS is_done");
	else if (watch_may_claim(&w->watch, &m->rules, now_us) &&
	         w->claimed_epoch != w->watch.epoch)
		take_over(m, w,
		          "SELECT cluster.claim($1::int, $2, $3::bigint, $4::int, $5::bigint, "
		          "$6::bigint, $7) AS is_done");
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 14695981039346656037U; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211U;
	return hash;
}

/* The slot of this node, else one whose node is not in the answer. */
static struct watched *slot_of(struct member *m, uint32_t node, const json_t *answer)
{
	struct watched *free_one = NULL;

	for (size_t i = 0; i < WATCHES; i++) {
		struct watched *w = &m->watches[i];
		bool is_in_answer = false;
		const json_t *one;
		size_t k;

		if (w->watch.node == node)
			return w;
		json_array_foreach(answer, k, one)
		{
			is_in_answer |= w->watch.node != 0 &&
			                json_integer_value(json_object_get(one, "node")) ==
			                        (json_int_t)w->watch.node;
		}
		if (!is_in_answer)
			free_one = w;
	}
	return free_one;
}

static uint64_t natural(const json_t *object, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(object, name));

	return n < 0 ? 0 : (uint64_t)n;
}

static void watch_others(struct member *m, const PGresult *rows, uint64_t received_us)
{
	auto_json json_t *watched = json_at(rows, "watched");
	const json_t *one;
	size_t i;

	json_array_foreach(watched, i, one)
	{
		uint32_t node = (uint32_t)MIN(natural(one, "node"), INT32_MAX);
		struct watched *w = i < WATCHES && node ? slot_of(m, node, watched) : NULL;

		if (!w)
			continue;
		if (w->watch.node != node)
			*w = (struct watched){0};
		watch_saw(&w->watch, node, natural(one, "epoch"), natural(one, "number"),
		          hash_of(m->server), received_us);
		judge(m, w);
	}
}

static void on_directory(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	auto_json json_t *all = answer->rows ? json_at(answer->rows, "directory") : NULL;
	int r;

	m->directory_asked = 0;
	m->directory_us = clock_steady_us();
	m->has_taken_over = false;
	if (!all) {
		on_work_done(answer, arg);
		return;
	}
	r = directory_set(&m->directory, all);
	if (r < 0) {
		log_warn("cluster.directory_refused", "error='%s'", strerror(-r));
		return;
	}
	log_info("cluster.directory", "nodes=%zu number=%" PRIu64, m->directory.n,
	         m->directory.number);
	if (m->peers)
		peers_look(m->peers);
	if (m->link)
		gateway_link_nodes(m->link, m->directory.nodes, m->directory.n);
}

static void on_certified(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;

	m->is_signing = false;
	on_work_done(answer, arg);
}

static void certify(struct member *m, const json_t *request)
{
	const char *invitation = json_string_value(json_object_get(request, "invitation"));
	auto_free char *certificate = NULL;
	struct err err = {0};
	int r = signing_answer(m->config.authority, m->config.node->cluster_id,
	                       m->config.invitations_dir, request, &certificate, &err);
	const char *const more[] = {invitation, certificate, r < 0 ? err.message : NULL};

	log_write(r < 0 ? LOG_WARN : LOG_INFO, "cluster.request",
	          "invitation='%s' name='%s' signed=%d error='%s'", invitation ? invitation : "",
	          signing_name(request), r == 0, r < 0 ? err.message : "");
	if (invitation && call(m, m->work, "SELECT cluster.certify($1::int, $2, $3, $4, $5)", more,
	                       ARRAY_SIZE(more), on_certified) < 0)
		log_warn("cluster.request_waits", "invitation='%s'", invitation);
}

static void on_requests(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	auto_json json_t *requests = answer->rows ? json_at(answer->rows, "requests") : NULL;
	const json_t *one;
	size_t i;

	m->is_signing = false;
	if (!answer->rows)
		on_work_done(answer, arg);
	json_array_foreach(requests, i, one)
	{
		m->is_signing = true;
		certify(m, one);
	}
}

/* Nodes that go silent or join anew do not change the directory's number: it is read again while
 * there is one that is not alive, and after one was taken over. */
static bool is_stale(const struct member *m)
{
	bool is_any_silent = m->has_taken_over;

	for (size_t i = 0; i < m->directory.n; i++)
		is_any_silent |= !m->directory.nodes[i].is_alive;
	return is_any_silent && clock_steady_us() >= m->directory_us + DIRECTORY_US;
}

/* What the answer says that there is to do. */
static void follow_up(struct member *m, const PGresult *rows)
{
	uint64_t directory = (uint64_t)MAX(number_at(rows, "directory_number"), 0);

	if ((directory != m->directory.number || is_stale(m)) && directory != m->directory_asked &&
	    call(m, m->work, "SELECT cluster.directory($1::int, $2)", NULL, 0, on_directory) == 0)
		m->directory_asked = directory;
	if (m->config.authority->key && !m->is_signing && number_at(rows, "n_requests") > 0 &&
	    call(m, m->work, "SELECT cluster.requests($1::int, $2)", NULL, 0, on_requests) == 0)
		m->is_signing = true;
}

/* The gateway asks for what has changed. */
static void note_change(struct member *m, const PGresult *rows)
{
	uint64_t change = (uint64_t)MAX(number_at(rows, "change"), 0);

	if (change == m->change)
		return;
	m->change = change;
	tell_gateway(m);
}

static void on_beat_answer(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	uint64_t now_us = clock_steady_us();

	if (!answer->rows) {
		fail_beats(m, answer->trouble, answer->message);
		return;
	}
	if (strcmp(text_at(answer->rows, "is_taken"), "t") != 0) {
		log_warn("cluster.epoch_over", "node=%s epoch=%" PRIu64, m->node_text,
		         m->fence.epoch);
		fence_refused(&m->fence);
		look(m);
		ask_epoch(m);
		return;
	}
	m->skew_us = number_at(answer->rows, "at_us") - (int64_t)clock_wall_us();
	(void)snprintf(m->server, sizeof(m->server), "%s", text_at(answer->rows, "server"));
	if (!fence_answered(&m->fence, m->fence.number))
		return; /* the clocks have parted meanwhile: the next one counts */
	m->answered_us = now_us;
	m->round_trip_us = now_us - m->sent_us;
	set_trouble(m, TROUBLE_NONE, "");
	note_change(m, answer->rows);
	watch_others(m, answer->rows, now_us);
	follow_up(m, answer->rows);
}

/* What a beat tells of the node, for the others' `cloche cluster status`. */
static char *figures_of(const struct member *m)
{
	auto_json json_t *all = json_pack(
		"{sI sI sb ss}", "certificate_end_s", (json_int_t)m->config.certificate_end_s,
		"skew_ms", (json_int_t)(m->skew_us / 1000), "signs",
		m->config.authority->key != NULL, "version", CLOCHE_VERSION);

	return json_dumps(all, JSON_COMPACT);
}

static void send_beat(struct member *m)
{
	char epoch[24], number[24];
	auto_free char *figures = figures_of(m);
	const char *const more[] = {epoch, number, figures ? figures : "{}"};

	m->sent_us = clock_steady_us();
	(void)snprintf(epoch, sizeof(epoch), "%" PRIu64, m->fence.epoch);
	(void)snprintf(number, sizeof(number), "%" PRIu64, fence_send(&m->fence, m->sent_us));
	if (call(m, m->beats,
	         "SELECT is_taken, server, watched, n_requests, directory_number, at_us, change "
	         "FROM "
	         "cluster.beat($1::int, $2, $3::bigint, $4::bigint, $5::jsonb)",
	         more, ARRAY_SIZE(more), on_beat_answer) < 0)
		log_debug("cluster.beat_left_out", "number=%s", number);
}

static void on_beat(struct loop *loop, void *arg)
{
	struct member *m = arg;

	(void)loop;
	loop_timer_set_in(m->beat, m->rules.beat_us);
	fence_look(&m->fence, &m->rules, clock_steady_us(), clock_wall_us());
	look(m);
	if (m->fence.is_in && !m->fence.is_open && database_is_up(m->beats))
		send_beat(m);
}

static void on_joined(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	int64_t epoch = answer->rows ? number_at(answer->rows, "epoch") : -1;

	if (!answer->rows) {
		fail_beats(m, answer->trouble, answer->message);
	} else if (epoch <= 0) {
		ask_epoch(m); /* it was raised between the two calls */
	} else if (fence_joined(&m->fence, m->fence.number, (uint64_t)epoch)) {
		log_info("cluster.joined", "node=%s name=%s epoch=%" PRId64, m->node_text,
		         m->config.node->name, epoch);
		m->answered_us = clock_steady_us();
		set_trouble(m, TROUBLE_NONE, "");
		loop_timer_set_in(m->beat, 0);
	} else {
		fail_beats(m, TROUBLE_STARTING, "the clocks have parted while it joined");
	}
}

/* At the first join nothing is there. At all others the gateway compares what is there with what
 * it has. */
static void on_epoch(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	char number[24];
	const char *const more[] = {answer->rows ? text_at(answer->rows, "epoch") : "", number};

	if (!answer->rows) {
		fail_beats(m, answer->trouble, answer->message);
		return;
	}
	m->sent_us = clock_steady_us();
	fence_look(&m->fence, &m->rules, m->sent_us, clock_wall_us());
	(void)snprintf(number, sizeof(number), "%" PRIu64, fence_send(&m->fence, m->sent_us));
	if (call(m, m->beats,
	         "SELECT cluster.join_node($1::int, $2, $3::bigint, $4::bigint, "
	         "$3::bigint = 0) AS epoch",
	         more, ARRAY_SIZE(more), on_joined) < 0)
		fail_beats(m, TROUBLE_UNREACHABLE, "the connection is lost");
}

static void ask_epoch(struct member *m)
{
	if (call(m, m->beats, "SELECT cluster.epoch_of($1::int, $2) AS epoch", NULL, 0, on_epoch) <
	    0)
		fail_beats(m, TROUBLE_UNREACHABLE, "the connection is lost");
}

static void set_rules(struct member *m, const PGresult *rows)
{
	uint64_t fence_us = 1000 * (uint64_t)number_at(rows, "fence_after_ms");
	uint64_t lost_us = 1000 * (uint64_t)number_at(rows, "lost_after_ms");

	m->rules = (struct fence_rules){
		.beat_us = fence_us / BEATS_OF,
		.fence_after_us = fence_us,
		.lost_after_us = lost_us,
		.margin_us = fence_us / 6,
		.ending_us = MIN(fence_usual.ending_us, lost_us / 3),
		.clock_jump_us = fence_usual.clock_jump_us,
	};
	database_set_call_us(m->beats, fence_us / 2);
}

static void on_hello(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	const struct node_file *node = m->config.node;
	enum trouble trouble = TROUBLE_NONE;
	struct err err = {0};

	if (!answer->rows) {
		fail_beats(m, answer->trouble, answer->message);
		return;
	}
	trouble = signing_check_hello(answer->rows, node->cluster_id, MEMBER_SCHEMA, &err);
	if (trouble != TROUBLE_NONE) {
		fail_beats(m, trouble, err.message);
		return;
	}
	set_rules(m, answer->rows);
	if (m->fence.is_in) /* it goes on with its epoch: a beat tells whether that holds */
		loop_timer_set_in(m->beat, 0);
	else
		ask_epoch(m);
}

static void on_beats_ready(void *arg)
{
	struct member *m = arg;

	if (database_call(m->beats, "SELECT * FROM cluster.hello()", NULL, 0, on_hello, m) < 0)
		fail_beats(m, TROUBLE_UNREACHABLE, "the connection is lost");
}

/* The beat under way has no answer any more: the next may be sent. */
static void on_beats_lost(enum trouble trouble, const char *message, void *arg)
{
	struct member *m = arg;

	m->fence.is_open = false;
	set_trouble(m, trouble, message);
}

static void on_work_ready(void *arg)
{
	(void)arg;
}

static void on_work_lost(enum trouble trouble, const char *message, void *arg)
{
	struct member *m = arg;

	m->directory_asked = 0;
	m->is_signing = false;
	log_debug("cluster.work_lost", "code=%s message='%s'", trouble_code(trouble), message);
}

static void on_fence_timer(struct loop *loop, void *arg)
{
	(void)loop;
	look(arg);
}

static struct database *open_database(struct member *m, const struct database_ops *ops,
                                      uint64_t call_us)
{
	return database_new(&(struct database_config){
		.loop = m->config.loop,
		.resolver = m->config.resolver,
		.conninfo = m->config.conninfo,
		.ops = ops,
		.arg = m,
		.connect_us = CONNECT_US,
		.call_us = call_us,
		.rest_max_us = fence_usual.beat_us,
	});
}

static int on_arrived(uint32_t from, int fd_in, void *arg);
static void on_opened(uint32_t seq, int error, const char *why, int fd, void *arg);

struct member *member_new(const struct member_config *config)
{
	static const struct database_ops of_beats = {.ready = on_beats_ready,
	                                             .lost = on_beats_lost};
	static const struct database_ops of_work = {.ready = on_work_ready, .lost = on_work_lost};
	static const struct peers_ops of_peers = {.arrived = on_arrived, .opened = on_opened};
	struct member *m = xnew0(struct member);

	m->config = *config;
	m->rules = fence_usual;
	m->state_since_us = clock_steady_us();
	m->trouble = config->trouble ? config->trouble : TROUBLE_STARTING;
	(void)snprintf(m->message, sizeof(m->message), "%s",
	               config->message ? config->message : "no beat was answered yet");
	m->beat = loop_timer_new(config->loop, on_beat, m);
	m->fence_timer = loop_timer_new(config->loop, on_fence_timer, m);
	if (!config->node)
		return m;
	(void)snprintf(m->node_text, sizeof(m->node_text), "%u", config->node->node);
	if (config->tls)
		m->peers = peers_new(&(struct peers_config){
			.loop = config->loop,
			.resolver = config->resolver,
			.tls = config->tls,
			.cluster_id = config->node->cluster_id,
			.address = config->node->address,
			.node = config->node->node,
			.directory = &m->directory,
			.ops = &of_peers,
			.arg = m,
		});
	m->beats = open_database(m, &of_beats, fence_usual.fence_after_us / 2);
	m->work = open_database(m, &of_work, WORK_CALL_US);
	return m;
}

static void on_open(uint32_t seq, uint32_t node, void *arg)
{
	struct member *m = arg;

	if (m->peers)
		peers_open(m->peers, seq, node);
	else
		gateway_link_opened(m->link, seq, -EHOSTUNREACH,
		                    "this node has no certificate of a cluster", -1);
}

static void on_opened(uint32_t seq, int error, const char *why, int fd, void *arg)
{
	struct member *m = arg;

	gateway_link_opened(m->link, seq, error, why, fd);
	close_fd(&fd);
}

static int on_arrived(uint32_t from, int fd_in, void *arg)
{
	struct member *m = arg;
	auto_fd int fd = fd_in;

	return m->link ? gateway_link_arrived(m->link, from, fd) : -EAGAIN;
}

static void on_call(uint32_t seq, const char *name, const json_t *call_json, void *arg)
{
	struct member *m = arg;

	gateway_calls_take(&m->calls, seq, name, call_json,
	                   fence_state(&m->fence, &m->rules, clock_steady_us()), m->fence.epoch);
}

static void on_link_ended(void *arg)
{
	struct member *m = arg;

	loop_stop(m->config.loop);
}

int member_link(struct member *m, int fd)
{
	static const struct gateway_link_ops ops = {
		.open = on_open, .call = on_call, .ended = on_link_ended};

	int r = gateway_link_new(m->config.loop, fd, &ops, m, &m->link);

	m->calls = (struct gateway_calls){.work = m->work,
	                                  .node = m->work ? m->config.node : NULL,
	                                  .node_text = m->node_text,
	                                  .link = m->link};
	return r;
}

void member_start(struct member *m)
{
	look(m);
	if (!m->beats || m->config.trouble)
		return;
	database_start(m->beats);
	database_start(m->work);
	loop_timer_set_in(m->beat, m->rules.beat_us);
}

static json_t *watching(const struct member *m)
{
	uint64_t now_us = clock_steady_us();
	json_t *list = json_array();

	for (size_t i = 0; i < WATCHES; i++) {
		const struct watch *w = &m->watches[i].watch;

		if (w->node)
			(void)json_array_append_new(
				list, json_pack("{sI sI sI}", "node", (json_int_t)w->node, "epoch",
			                        (json_int_t)w->epoch, "same_ms",
			                        (json_int_t)((now_us - w->since_us) / 1000)));
	}
	return list;
}

static json_t *say_problem(enum trouble trouble, const char *message)
{
	return json_pack("{ss ss ss}", "code", trouble_code(trouble), "message", message, "hint",
	                 trouble_hint(trouble));
}

/* What keeps it from its right comes first. NULL: nothing is wrong. */
static json_t *problem_of(const struct member *m)
{
	int64_t left_s = m->config.certificate_end_s - (int64_t)(clock_wall_us() / SECOND_US);
	auto_free char *message = NULL;

	if (m->trouble != TROUBLE_NONE)
		return say_problem(m->trouble, m->message);
	if (m->config.certificate_end_s > 0 && left_s <= 0)
		return say_problem(TROUBLE_ENDED, "this node's certificate has ended: no other "
		                                  "node speaks with it");
	if (m->config.certificate_end_s > 0 && left_s < WARN_S) {
		message = xasprintf("this node's certificate ends in %" PRId64 " days",
		                    left_s / 86400);
		return say_problem(TROUBLE_ENDING, message);
	}
	if (m->skew_us > SKEW_MAX_US || m->skew_us < -SKEW_MAX_US) {
		message =
			xasprintf("this node's clock is %" PRId64 " s %s PostgreSQL's: no lease "
		                  "depends on it, but times in logs and events do",
		                  (m->skew_us < 0 ? -m->skew_us : m->skew_us) / (int64_t)SECOND_US,
		                  m->skew_us < 0 ? "ahead of" : "behind");
		return say_problem(TROUBLE_SKEW, message);
	}
	return NULL;
}

json_t *member_status(const struct member *m)
{
	json_t *problem;
	const struct node_file *node = m->config.node;
	uint64_t now_us = clock_steady_us();
	json_t *all = json_pack(
		"{ss sI sb sI sI sI sI sI so sb sI}", "state", state_names[m->state], "since_ms",
		(json_int_t)((now_us - m->state_since_us) / 1000), "connected",
		m->beats && database_is_up(m->beats), "epoch", (json_int_t)m->fence.epoch, "beats",
		(json_int_t)m->fence.number, "fence_after_ms",
		(json_int_t)(m->rules.fence_after_us / 1000), "lost_after_ms",
		(json_int_t)(m->rules.lost_after_us / 1000), "nodes", (json_int_t)m->directory.n,
		"watching", watching(m), "signs", m->config.authority->key != NULL,
		"certificate_end_s", (json_int_t)m->config.certificate_end_s);

	if (m->peers)
		(void)json_object_set_new(all, "streams", peers_status(m->peers));

	if (node) {
		(void)json_object_set_new(all, "cluster_id", json_string(node->cluster_id));
		(void)json_object_set_new(all, "node", json_integer(node->node));
		(void)json_object_set_new(all, "name", json_string(node->name));
		(void)json_object_set_new(all, "address", json_string(node->address));
	}
	if (m->answered_us) {
		(void)json_object_set_new(
			all, "answered_ms_ago",
			json_integer((json_int_t)((now_us - m->answered_us) / 1000)));
		(void)json_object_set_new(all, "round_trip_us",
		                          json_integer((json_int_t)m->round_trip_us));
		(void)json_object_set_new(all, "clock_skew_ms",
		                          json_integer((json_int_t)(m->skew_us / 1000)));
	}
	problem = problem_of(m);
	if (problem)
		(void)json_object_set_new(all, "problem", problem);
	return all;
}
