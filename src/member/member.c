// SPDX-License-Identifier: Apache-2.0
/*
 * The wiring of the member. It has two connections to the database: one for beats alone (beats.c),
 * and one for all other work (node_watch.c, follow_up.c, gateway_calls.c). What the gateway asks
 * comes over gateway_link.h, and streams of other nodes come from peers.
 *
 * Whatever fails is told (trouble.h), the connection is made anew, and the node goes on by what the
 * fence says (cluster/fence.h). Clocks are CLOCK_BOOTTIME, read where it counts: a beat is sent no
 * earlier than the time that is noted for it, and an answer has come by the time that is noted.
 */
#include "member/member_private.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>

#define CONNECT_US   (5 * SECOND_US)
#define WORK_CALL_US (10 * SECOND_US)
#define LOAD_BYTES   800 /* what a node tells of how full it is */

static const char *const state_names[] = {
	[FENCE_OUT] = "out",
	[FENCE_HELD] = "held",
	[FENCE_FENCED] = "fenced",
	[FENCE_LOST] = "lost",
};

const char *member_state_name(enum fence_state state)
{
	return state_names[state];
}

void member_tell_gateway(const struct member *m)
{
	struct cluster_word word = {
		.state = m->state,
		.node = m->config.node ? m->config.node->node : 0,
		.epoch = m->fence.epoch,
		.change = m->change,
		.n_wanted = m->n_wanted,
		.n_compares = m->n_compares,
		.n_rewinds = m->n_rewinds,
		.lost_us = m->fence.was_in ? fence_lost_us(&m->fence, &m->rules) : 0,
		.right_us =
			m->state == FENCE_HELD ? m->fence.right_us + m->rules.fence_after_us : 0,
		.n_takeovers = m->n_takeovers};

	char of_certificate[MESSAGE_SIZE];
	enum trouble trouble = m->trouble;
	const char *message = m->message;

	if (!m->link)
		return;
	if (trouble == TROUBLE_NONE) {
		trouble = own_certificate_problem(m, of_certificate);
		message = trouble == TROUBLE_NONE ? "" : of_certificate;
	}
	(void)snprintf(word.code, sizeof(word.code), "%s", trouble_code(trouble));
	(void)snprintf(word.message, sizeof(word.message), "%s", message);
	(void)snprintf(word.hint, sizeof(word.hint), "%s", trouble_hint(trouble));
	gateway_link_word(m->link, &word);
}

void member_look(struct member *m)
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
	member_tell_gateway(m);
}

void member_set_trouble(struct member *m, enum trouble trouble, const char *message)
{
	if (trouble != m->trouble && trouble != TROUBLE_NONE)
		log_warn("cluster.trouble", "code=%s message='%s' hint='%s'", trouble_code(trouble),
		         message, trouble_hint(trouble));
	m->trouble = trouble;
	(void)snprintf(m->message, sizeof(m->message), "%s", message);
	member_look(m);
}

int member_call(struct member *m, struct database *db, const char *sql, const char *const *more,
                size_t n_more, database_fn fn)
{
	const char *params[DATABASE_PARAMS_MAX] = {m->node_text, m->config.node->secret};

	for (size_t i = 0; i < n_more; i++)
		params[2 + i] = more[i];
	return database_call(db, sql, params, 2 + n_more, fn, m);
}

void member_on_work_done(const struct database_answer *answer, void *arg)
{
	(void)arg;
	if (!answer->rows)
		log_warn("cluster.call_failed", "code=%s message='%s'",
		         trouble_code(answer->trouble), answer->message);
}

static void on_work_ready(void *arg)
{
	(void)arg;
}

static void on_work_lost(enum trouble trouble, const char *message, void *arg)
{
	struct member *m = arg;

	m->directory_asked = 0;
	m->is_signing = m->is_renewing = m->own.is_asking = m->is_counting = false;
	log_debug("cluster.work_lost", "code=%s message='%s'", trouble_code(trouble), message);
}

static void on_fence_timer(struct loop *loop, void *arg)
{
	(void)loop;
	member_look(arg);
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
	static const struct database_ops of_work = {.ready = on_work_ready, .lost = on_work_lost};
	static const struct peers_ops of_peers = {.arrived = on_arrived, .opened = on_opened};
	struct member *m = xnew0(struct member);

	m->config = *config;
	m->rules = fence_usual;
	m->state_since_us = clock_steady_us();
	m->trouble = config->trouble ? config->trouble : TROUBLE_STARTING;
	(void)snprintf(m->message, sizeof(m->message), "%s",
	               config->message ? config->message : "no beat was answered yet");
	m->beat = loop_timer_new(config->loop, beats_on_timer, m);
	m->fence_timer = loop_timer_new(config->loop, on_fence_timer, m);
	m->collect = collect_new(m, config->collect_us, config->collect_most);
	if (!config->node)
		return m;
	(void)snprintf(m->node_text, sizeof(m->node_text), "%u", config->node->node);
	own_certificate_open(m);
	if (m->own.tls)
		m->peers = peers_new(&(struct peers_config){
			.loop = config->loop,
			.resolver = config->resolver,
			.tls = m->own.tls,
			.cluster_id = config->node->cluster_id,
			.address = config->node->address,
			.node = config->node->node,
			.directory = &m->directory,
			.ops = &of_peers,
			.arg = m,
		});
	m->beats = open_database(m, &beats_ops, fence_usual.fence_after_us / 2);
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

/* Goes out with the next beat; the answer is what the last one has said of others. */
static void take_load(struct member *m, uint32_t seq, const json_t *call_json)
{
	json_t *load = json_object_get(call_json, "load");
	auto_json json_t *nothing = json_pack("{s[]}", "nodes");

	if (!json_is_object(load) || json_dumpb(load, NULL, 0, JSON_COMPACT) > LOAD_BYTES) {
		gateway_link_refuse(m->link, seq, "refused", "load: must be a small object");
		return;
	}
	json_decref(m->load);
	m->load = json_incref(load);
	gateway_link_answer(m->link, seq, m->sample ? m->sample : nothing);
}

static void on_call(uint32_t seq, const char *name, const json_t *call_json, int fd_in, void *arg)
{
	struct member *m = arg;
	auto_fd int fd = fd_in;
	const enum fence_state state = fence_state(&m->fence, &m->rules, clock_steady_us());

	if (strcmp(name, "load") == 0)
		take_load(m, seq, call_json);
	else if (strcmp(name, "nodes") == 0)
		heard_nodes_take(m, seq, call_json);
	else if (strcmp(name, "tell_objects") == 0)
		collect_tell(m->collect, seq, call_json);
	else if (object_calls_is(name))
		object_calls_take(&m->objects, seq, name, call_json, take_fd(&fd), m->fence.epoch);
	else
		gateway_calls_take(&m->calls, seq, name, call_json, state, m->fence.epoch);
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
	                                  .link = m->link,
	                                  .rewound = rewind_on_write,
	                                  .arg = m};
	m->objects = (struct object_calls){.pool = m->config.store,
	                                   .wrapping_key = m->config.wrapping_key,
	                                   .work = m->work,
	                                   .node = m->work ? m->config.node : NULL,
	                                   .node_text = m->node_text,
	                                   .link = m->link};
	return r;
}

void member_start(struct member *m)
{
	member_look(m);
	if (!m->beats || m->config.trouble)
		return;
	database_start(m->beats);
	database_start(m->work);
	loop_timer_set_in(m->beat, m->rules.beat_us);
}
