// SPDX-License-Identifier: Apache-2.0
/*
 * A create is: check, record, MSG_CREATE, HELLO and WELCOME, running. The record comes first, so
 * that a gateway that dies in between finds it at its next start and removes what there is. Failing
 * at any step ends in the same place: MSG_DELETE, whose answer means that nothing is left on the
 * host, then the record goes and the caller is told.
 */
#include "base/clock.h"
#include "base/log.h"
#include "sandbox/inside.h"

#define MILLISECONDS UINT64_C(1000)

void create_tell(struct sandbox *s, const struct err *err)
{
	sandbox_done_fn fn = take_ptr(s->created);

	sandbox_tell(s->fleet, fn, s->created_arg, err ? NULL : s, err);
}

void create_fail(struct sandbox *s, const struct err *err)
{
	log_warn("sandbox.failed", "id=%s error='%s'", s->id, err->message);
	s->create_err = *err;
	sandbox_end(s, END_GUEST_CRASH, "it could not be created");
}

/* One label of a DNS name: what the broker and prompts inside accept. */
void create_hostname(const struct sandbox *s, char hostname[64])
{
	(void)snprintf(hostname, 64, "%s", s->name[0] ? s->name : s->id);
	for (char *p = hostname; *p; p++)
		if (*p == '_')
			*p = '-';
}

static void on_create_reply(const struct msg_reply *reply, int fd, void *arg)
{
	struct sandbox *s = arg;

	s->ask = 0;
	if (reply->err.code == ERR_NONE && fd >= 0) {
		s->isolation = reply->isolation;
		sandbox_make_link(s);
		link_attach(s->link, fd);
		return;
	}
	if (fd >= 0)
		(void)close(fd);
	create_fail(s, &reply->err);
}

static int ask_create(struct sandbox *s, struct err *err)
{
	struct msg_request req = {.op = MSG_CREATE};

	memcpy(req.id, s->id, sizeof(req.id));
	create_hostname(s, req.create.hostname);
	req.create.engine = 1;
	req.create.limits = s->limits;
	return host_ask(s->fleet->host, &req, on_create_reply, s, &s->ask, err);
}

static int check_room(struct fleet *fleet, struct err *err)
{
	if (!fleet->is_ready || fleet->is_draining)
		return err_set(err, ERR_UNAVAILABLE, 0, "the daemon is %s",
		               fleet->is_ready ? "stopping" : "starting");
	if (fleet->n_alive < fleet->config.sandboxes_max)
		return 0;
	(void)err_set(err, ERR_CAPACITY, 0, "there are %zu sandboxes, which is the most",
	              fleet->n_alive);
	return err_hint(err, "delete some, or raise the daemon's limit");
}

int sandbox_create(struct fleet *fleet, const char *project_id, const struct sandbox_spec *spec,
                   sandbox_done_fn done, void *arg, struct err *err)
{
	struct guest_limits limits;
	uint64_t timeout_ms;
	struct sandbox *s;
	int r = check_room(fleet, err);

	if (r < 0)
		return r;
	r = spec_check(fleet, spec, &limits, &timeout_ms, err);
	if (r < 0)
		return r;
	if (spec->name && fleet_has_name(fleet, project_id, spec->name))
		return err_set(err, ERR_CONFLICT, 0, "name: a sandbox named '%s' exists already",
		               spec->name);
	s = sandbox_alloc(fleet);
	id_make(s->id, "sb");
	(void)snprintf(s->project_id, sizeof(s->project_id), "%s", project_id);
	(void)snprintf(s->key_id, sizeof(s->key_id), "%s", spec->key_id ? spec->key_id : "");
	s->name = xstrdup(spec->name ? spec->name : "");
	s->tags = spec->tags ? json_deep_copy(spec->tags) : json_object();
	s->env = spec->env ? json_deep_copy(spec->env) : json_object();
	s->limits = limits;
	s->timeout_ms = timeout_ms;
	s->created_us = clock_wall_us();
	s->expires_us = timeout_ms ? s->created_us + timeout_ms * MILLISECONDS : 0;
	s->channels_to = CHANNEL_BLOCK; /* the record that is written anyway reserves the first */
	r = sandbox_save(s, err);
	if (r == 0)
		r = ask_create(s, err);
	if (r < 0) {
		(void)!store_delete_sandbox(fleet->config.store, s->id, NULL);
		sandbox_free(s);
		return r;
	}
	s->created = done;
	s->created_arg = arg;
	fleet_attach(fleet, s);
	sandbox_set_lifetime(s);
	emit_created(s);
	return 0;
}
