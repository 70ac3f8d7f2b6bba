// SPDX-License-Identifier: Apache-2.0
/* What a create or a resume does once its row is written, and who is told how it went. */
#include "base/log.h"
#include "sandbox/code/contexts.h"
#include "sandbox/lifecycle/create_source.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/owner.h"
#include "sandbox/model/registry.h"
#include "sandbox/network/network.h"
#include "sandbox/snapshot/snapshots.h"
#include "sandbox/storage/storage.h"
#include "telemetry/span.h"

void create_await(struct sandbox *s)
{
	struct share *share = sandbox_share(s);

	s->is_awaited = true;
	s->fleet->n_creating++;
	if (share)
		share->n_creating++;
}

void create_unawait(struct sandbox *s)
{
	struct share *share = sandbox_share(s);

	if (!s->is_awaited)
		return;
	s->is_awaited = false;
	s->fleet->n_creating--;
	if (share)
		share->n_creating--;
	if (s->fleet->n_creating == 0 || (share && share->n_creating == 0))
		s->fleet->spares->look(s->fleet->pool);
}

/* Ids and short words alone: what a name of a template or a project may be is our own rule. */
void create_begin_span(struct sandbox *s, const char *name)
{
	span_drop(s->span); /* of one that nobody was told of */
	s->span = span_begin(s->fleet->config.telemetry, name);
	span_put_text(s->span, "cloche.sandbox.id", s->id);
	span_put_text(s->span, "cloche.project.id", s->project_id);
	span_put_text(s->span, "cloche.template", s->template);
	span_put_text(s->span, "cloche.engine", engine_name(s->engine));
}

void create_tell(struct sandbox *s, const struct err *err)
{
	span_end(take_ptr(s->span), err ? err_code_name(err->code) : NULL);
	create_unawait(s);
	if (!err)
		s->fleet->spares->on_booted(s);
	sandbox_tell_all(s, &s->callers, err);
}

void create_fail(struct sandbox *s, const struct err *err)
{
	if (s->paused_in[0]) {
		pause_on_failed(s, err);
		return;
	}
	if (s->spare)
		s->fleet->spares->on_failed(s, err);
	else
		log_warn("sandbox.failed", "id=%s step=%s error='%s'", s->id, s->step->name,
		         err->message);
	rollback_on_failed(s);
	if (s->resumes == 0)
		s->is_kept = false; /* nothing of it was anybody's */
	sandbox_undo(s, END_GUEST_CRASH,
	             s->resumes > 0 ? "it could not be resumed" : "it could not be created", err);
}

/* One label of a DNS name: what the broker and prompts inside accept. */
void create_hostname(const struct sandbox *s, char hostname[64])
{
	(void)snprintf(hostname, 64, "%s", s->name[0] ? s->name : s->id);
	for (char *p = hostname; *p; p++)
		if (*p == '_')
			*p = '-';
}

/* A spare is charged to the project that took the one before it. */
static struct share *create_share(const struct sandbox *s)
{
	return s->spare ? s->fleet->spares->share(s->spare) : sandbox_share(s);
}

static void on_create_reply(const struct msg_reply *reply, int *fds, void *arg)
{
	struct sandbox *s = arg;

	s->ask = 0;
	span_part(s->span, "broker");
	if (reply->err.code == ERR_NONE && fds[0] >= 0) {
		s->isolation = reply->isolation;
		if (!s->link) /* else it comes back with all that it had */
			sandbox_make_link(s);
		copied_processes_rejoin(s);
		if (s->phase == PHASE_WAKING)
			link_hold(s->link);
		link_attach(s->link, take_fd(&fds[0]));
		return;
	}
	if (!s->fleet->spares->is_created_anew(s, &reply->err) ||
	    s->spare) /* for which nobody waits */
		create_fail(s, &reply->err);
	else
		create_begin_guest(s);
}

int create_ask_guest(struct sandbox *s, struct err *err)
{
	struct msg_request req = {.op = MSG_CREATE};

	memcpy(req.id, s->id, sizeof(req.id));
	create_hostname(s, req.create.hostname);
	req.create.engine = s->engine;
	req.create.limits = s->limits;
	req.create.image = s->image;
	req.create.shows = !s->is_shown     ? SHOWS_NOTHING
	                   : s->is_writable ? SHOWS_IMAGE_TO_WRITE
	                                    : SHOWS_IMAGE;
	memcpy(req.create.shown, s->shown, sizeof(req.create.shown));
	memcpy(req.create.volumes, s->volumes, sizeof(req.create.volumes));
	req.create.keeper = s->is_persistent ? store_number(s->fleet->config.store) : 0;
	req.create.is_resumed = s->resumes > 0 && s->is_persistent && !s->outlive.origin[0];
	if (s->rolls_to[0])
		memcpy(req.create.snapshot, s->rolls_to, sizeof(req.create.snapshot));
	else if (s->paused_in[0])
		memcpy(req.create.snapshot, s->paused_in, sizeof(req.create.snapshot));
	else if (s->resumes == 0)
		memcpy(req.create.snapshot, s->warm_copy[0] ? s->warm_copy : s->snapshot_id,
		       sizeof(req.create.snapshot));
	req.create.with_memory =
		s->paused_in[0] ? s->phase != PHASE_WAKING_COLD : s->carried != NULL;
	if (s->warm_copy[0] && req.create.with_memory)
		req.create.with_memory = MEMORY_WARM;
	owner_name(create_share(s), &req.create.owner, &req.create.weight);
	req.create.is_ahead = s->spare && !s->fleet->spares->is_short(s->spare);
	return broker_client_ask_fds(s->fleet->broker, create_share(s), &req, on_create_reply, s,
	                             &s->ask, err);
}

void create_begin_guest(struct sandbox *s)
{
	struct err err;

	if (create_ask_guest(s, &err) < 0)
		create_fail(s, &err);
}

/* A copy's interpreter goes on before anybody is told of the copy. */
static void begin_memory(struct sandbox *s)
{
	const sandbox_made_fn on_made = s->on_made;

	s->on_made = NULL;
	if (on_made)
		on_made(s, s->made_arg);
	else
		life_next(s);
}

static const struct life_step create_steps[] = {
	{"guest", create_begin_guest},  /* the broker makes it, and its agent answers */
	{"directory", directory_begin}, /* in which the template's programs begin */
	{"source", fetch_begin},        /* nobody can call it yet: nothing runs beside this */
	{"network", network_begin},     /* its policy holds before its first call */
	{"memory", begin_memory},       /* fork.c */
	{"running", sandbox_begin},
};

void create_init(struct sandbox *s)
{
	s->step = create_steps;
}

void create_again(struct sandbox *s, enum sandbox_phase how)
{
	struct err err;

	sandbox_move(s, how);
	fleet_on_revived(s->fleet, s);
	create_await(s);
	s->resumes++;
	create_begin_span(s, "sandbox.resume");
	s->oom_kills = s->pids_refused = 0; /* its cgroups are new */
	create_init(s);
	if (sandbox_save(s, &err) < 0)
		create_fail(s, &err); /* ends where it was, and tells the callers */
	else
		life_begin(s, create_steps);
}
