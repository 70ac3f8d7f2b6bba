// SPDX-License-Identifier: Apache-2.0
#include "sandbox-rig.h"

#include "base/fs/dir_reader.h"
#include "base/log.h"
#include "sandbox/pool/pool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

static struct buf text = BUF_INIT(1 << 20);

/* For tests of what waits for an agent in vain. The others use the usual times, so that a busy
 * machine cannot fail them. */
static const struct link_timing hasty = {
	.greet_us = 50000,
	.ping_busy_us = 10000,
	.ping_idle_us = 20000,
	.pong_us = 50000,
};

static const struct pool_timing hasty_pool = {.pause_us = 1000, .beat_us = 200, .again_us = 2000};

static void on_ready(struct loop *loop, void *arg)
{
	(void)loop;
	((struct rig *)arg)->is_ready = true;
}

static void on_broker_lost(struct loop *loop, void *arg)
{
	(void)loop;
	((struct rig *)arg)->losses++;
}

void rig_come_back(struct rig *r)
{
	struct fleet_config config = {
		.loop = r->loop,
		.shares = r->shares = shares_new(),
		.spool_dir = r->dir,
		.spool_bytes_max = 1 << 20,
		.default_limits = {.memory_bytes = 64 << 20,
	                           .disk_bytes = 64 << 20,
	                           .inodes = 1000,
	                           .cpu_milli = 1000,
	                           .pids = 64,
	                           .open_files = 256},
		.max_limits = {.memory_bytes = 1 << 30,
	                       .disk_bytes = 1 << 30,
	                       .inodes = 100000,
	                       .cpu_milli = 4000,
	                       .pids = 1024,
	                       .open_files = 4096},
		.default_timeout_ms = 3600000,
		.max_timeout_ms = 86400000,
		.sandboxes_max = r->sandboxes_max > 0 ? r->sandboxes_max : 5,
		.persistent_max = 3,
		.ended_max = 1000,
		.ended_age_ms = 3600000,
		.ended_bytes_max = r->ended_bytes_max ? r->ended_bytes_max : 1 << 30,
		.execs_max = 4,
		.broker_lost = on_broker_lost,
		.broker_lost_arg = r,
		.timing = r->timing     ? r->timing
	                  : r->is_hasty ? &hasty
	                                : NULL,
		.pool_min = r->pool_min,
		.pool_max = r->pool_max,
		.pool_memory_bytes = 64 << 20,
		.pool_languages = r->pool_languages,
		.pool_timing = r->is_hasty ? &hasty_pool : NULL,
	};

	CHECK_INT(store_open(r->db, &r->store, NULL), 0);
	config.store = r->store;
	config.broker_fd = fake_broker_socket(&r->broker);
	r->is_ready = false;
	CHECK_INT(fleet_new(&config, on_ready, r, &r->fleet, NULL), 0);
	CHECK(!r->is_ready); /* never from inside the call */
	UNTIL(&r->broker, r->is_ready);
}

void rig_go_away(struct rig *r)
{
	CHECK_INT(fleet_counts(r->fleet)->stray_moves, 0);
	fleet_free(r->fleet);
	r->fleet = NULL;
	fake_turn(&r->broker);
	shares_free(r->shares);
	store_close(r->store);
}

void rig_start(struct rig *r)
{
	*r = (struct rig){.is_hasty = r->is_hasty,
	                  .timing = r->timing,
	                  .ended_bytes_max = r->ended_bytes_max,
	                  .sandboxes_max = r->sandboxes_max,
	                  .pool_min = r->pool_min,
	                  .pool_max = r->pool_max,
	                  .pool_languages = r->pool_languages};
	log_init("test", LOG_ERROR);
	CHECK_INT(loop_new(&r->loop, NULL), 0);
	fake_broker_init(&r->broker, r->loop);
	(void)snprintf(r->dir, sizeof(r->dir), "/tmp/cloche-rig-XXXXXX");
	CHECK(mkdtemp(r->dir) != NULL);
	(void)snprintf(r->db, sizeof(r->db), "%s/state.db", r->dir);
	rig_come_back(r);
}

static size_t each_spool(struct rig *r, bool is_removing)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	size_t count = 0;
	const char *name;

	CHECK_INT(dir_open(&dir, AT_FDCWD, r->dir), 0);
	while ((name = dir_next(&dir))) {
		count += strncmp(name, "ex_", 3) == 0;
		if (is_removing)
			(void)unlinkat(dir.fd, name, 0);
	}
	CHECK_INT(dir.error, 0);
	return count;
}

size_t rig_spools(struct rig *r)
{
	return each_spool(r, false);
}

void rig_stop(struct rig *r)
{
	if (r->fleet)
		rig_go_away(r);
	fake_broker_done(&r->broker);
	loop_free(r->loop);
	(void)each_spool(r, true);
	CHECK_INT(rmdir(r->dir), 0);
	*r = (struct rig){};
	buf_done(&text);
}

void rig_note(struct sandbox *s, const struct err *err, void *arg)
{
	struct outcome *o = arg;

	CHECK(!s != !err);
	o->calls++;
	o->s = s;
	if (err)
		o->err = *err;
}

struct sandbox *rig_create_in(struct rig *r, const char *project_id, const char *name)
{
	struct sandbox_spec spec = {.name = name};
	struct outcome o = {0};
	struct err err = {0};

	if (sandbox_create(r->fleet, project_id, &spec, rig_note, &o, &err) < 0)
		CHECK_STR(err.message, "");
	CHECK_INT(o.calls, 0);
	UNTIL(&r->broker, o.calls > 0);
	CHECK_STR(o.err.message, "");
	CHECK_INT(sandbox_state(o.s), SANDBOX_RUNNING);
	return o.s;
}

struct sandbox *rig_create(struct rig *r, const char *name)
{
	return rig_create_in(r, "prj_test", name);
}

void rig_delete(struct rig *r, struct sandbox *s)
{
	struct outcome o = {0};

	sandbox_delete(s, END_DELETED, rig_note, &o);
	CHECK_INT(o.calls, 0);
	UNTIL(&r->broker, o.calls > 0);
	CHECK(o.s == s);
}

const char *rig_json(struct sandbox *s)
{
	struct json_writer w;

	buf_truncate(&text, 0);
	json_writer_init(&w, &text);
	sandbox_to_json(s, &w, NULL);
	CHECK_INT(json_writer_end(&w), 0);
	return buf_str(&text);
}

const char *rig_exec_json(const struct exec *e)
{
	struct json_writer w;

	buf_truncate(&text, 0);
	json_writer_init(&w, &text);
	exec_to_json(e, &w, NULL);
	CHECK_INT(json_writer_end(&w), 0);
	return buf_str(&text);
}

struct exec *rig_exec(struct rig *r, struct sandbox *s, const char *shell, bool has_stdin)
{
	struct exec_spec spec = {.shell = shell, .has_stdin = has_stdin};
	struct fake_agent *a = fake_agent_find(&r->broker, sandbox_id(s));
	struct fake_channel *before = fake_channel_last(a);
	struct exec *e = NULL;
	struct err err = {0};

	if (exec_start(s, &spec, &e, &err) < 0)
		CHECK_STR(err.message, "");
	CHECK_INT(exec_state(e), EXEC_STARTING);
	UNTIL(&r->broker, fake_channel_last(a) != before);
	CHECK_STR(fake_channel_last(a)->start.tag, exec_id(e));
	return e;
}

char *rig_output(struct exec *e, uint8_t kind)
{
	struct buf out = BUF_INIT(8 << 20);
	struct spool_event ev;
	char *result;

	for (uint64_t after = 0; spool_next(exec_spool(e), after, &ev, NULL) == 1; after = ev.seq) {
		if (ev.kind == SPOOL_GAP)
			CHECK_INT(buf_printf(&out, "[gap %" PRIu64 "]", ev.lost_bytes), 0);
		else if (ev.kind == kind)
			CHECK_INT(buf_append(&out, ev.data, ev.len), 0);
	}
	result = xstrdup(buf_str(&out));
	buf_done(&out);
	return result;
}
