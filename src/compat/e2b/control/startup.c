// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/control/startup.h"

#include "api/frame/find.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/units.h"
#include "compat/e2b/control/ready.h"
#include "sandbox/storage/template.h"

#include <string.h>

#define READY_US   (UINT64_C(60) * 1000000)
#define BETWEEN_US UINT64_C(100000) /* two looks */
#define LOOK_MAX   (64 * 1024)      /* more than a build takes as a ready command */

struct startup {
	struct pending_reply *l;
	struct fleet *fleet;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE];
	char *ready, *look;      /* as the template has it, and what is run */
	struct exec_watch watch; /* of the ready command */
	struct loop_timer *pause;
	uint64_t until_us;
};

const json_t *startup_notes(const struct http_req *req, const char *template)
{
	const struct api *api = http_app_arg(req);
	const struct template *t =
		template ? template_find(api->fleet, caller_project(req), template) : NULL;
	const json_t *recipe = t ? json_object_get(template_manifest(t), "recipe") : NULL;

	return json_object_get(recipe, "e2b");
}

void startup_limits(const struct http_req *req, const json_t *notes, struct guest_limits *ret)
{
	const struct api *api = http_app_arg(req);
	const struct guest_limits *max = &fleet_config(api->fleet)->max_limits;
	json_int_t cpus = json_integer_value(json_object_get(notes, "cpus"));
	json_int_t memory = json_integer_value(json_object_get(notes, "memory_mib"));

	if (cpus > 0)
		ret->cpu_milli = (uint32_t)MIN((uint64_t)cpus * 1000, max->cpu_milli);
	if (memory > 0)
		ret->memory_bytes = MIN((uint64_t)memory * MIB, max->memory_bytes);
}

static struct sandbox *find(const struct startup *u)
{
	return sandbox_find(u->fleet, u->project_id, u->sandbox_id);
}

static void startup_free(struct startup *u)
{
	exec_watch_remove(&u->watch);
	loop_timer_free(u->pause);
	free(u->ready);
	free(u->look);
	free(u);
}

/* err NULL: it is ready. */
static void end(struct startup *u, const struct err *err)
{
	struct sandbox *s = find(u);
	struct pending_reply *l = u->l;
	struct err gone;

	startup_free(u);
	if (!err && !s) {
		(void)err_set(&gone, ERR_GONE, 0, "the sandbox has ended before it was ready");
		err = &gone;
	}
	if (err && s)
		sandbox_delete(s, END_DELETED, NULL, NULL);
	pending_reply_send(err ? NULL : s, err, l);
}

static void on_look(struct exec *e, void *arg)
{
	struct startup *u = arg;
	struct err err;
	bool is_ready;

	if (e && !exec_is_over(e))
		return;
	is_ready = e && exec_exit_code(e) == 0;
	exec_watch_remove(&u->watch);
	if (e)
		exec_remove(e);
	if (is_ready || !e) {
		end(u, NULL);
	} else if (clock_steady_us() >= u->until_us) {
		(void)err_set(&err, ERR_UNAVAILABLE, 0,
		              "the template's ready command did not succeed in time: %.200s",
		              u->ready);
		end(u, &err);
	} else {
		loop_timer_set_in(u->pause, BETWEEN_US);
	}
}

static void look(struct loop *loop, void *arg)
{
	struct startup *u = arg;
	struct sandbox *s = find(u);
	const struct exec_spec spec = {.shell = u->look};
	struct exec *e;
	struct err err = {0};

	(void)loop;
	if (!s) {
		end(u, NULL);
	} else if (exec_start(s, &spec, &e, &err) < 0) {
		end(u, &err);
	} else {
		u->watch = (struct exec_watch){.fn = on_look, .arg = u};
		exec_watch_add(e, &u->watch);
		on_look(e, u);
	}
}

void startup_run(struct sandbox *s, const json_t *notes, struct pending_reply *l)
{
	const char *start = json_string_value(json_object_get(notes, "start"));
	const char *ready = json_string_value(json_object_get(notes, "ready"));
	auto_json json_t *argv = json_pack("[sss]", "/bin/sh", "-c", start ? start : "");
	const struct exec_spec spec = {.argv = argv}; /* so that lists tell it */
	auto_call(buf_done) struct buf script = BUF_INIT(LOOK_MAX);
	struct startup *u;
	struct exec *e;
	struct err err = {0};

	if (start && exec_start(s, &spec, &e, &err) < 0) {
		sandbox_delete(s, END_DELETED, NULL, NULL);
		pending_reply_send(NULL, &err, l);
		return;
	}
	if (!start || !ready) {
		pending_reply_send(s, NULL, l);
		return;
	}
	ready_put(&script, ready);
	u = xnew0(struct startup);
	*u = (struct startup){.l = l,
	                      .fleet = sandbox_fleet(s),
	                      .ready = xstrdup(ready),
	                      .look = xstrdup(buf_str(&script)),
	                      .until_us = clock_steady_us() + READY_US};
	(void)snprintf(u->project_id, sizeof(u->project_id), "%s", sandbox_project_id(s));
	(void)snprintf(u->sandbox_id, sizeof(u->sandbox_id), "%s", sandbox_id(s));
	list_init(&u->watch.link);
	u->pause = loop_timer_new(fleet_config(u->fleet)->loop, look, u);
	look(NULL, u);
}
