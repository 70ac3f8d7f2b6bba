// SPDX-License-Identifier: Apache-2.0
/*
 * The life of a sandbox: its sessions begin and end, one at a time.
 *
 *	start: native sandbox from the settings and the current snapshot --> set up --> running
 *	stop:  snapshot (of what runs, or of what a persistent sandbox has kept) --> recorded -->
 *	       native sandbox deleted --> whoever waits for a start is served
 *
 * A session may also end by itself, at its deadline or by its programs. The native sandbox of a
 * persistent one has then kept its files, and the same steps follow. Callers queue: all that want
 * it to run wait for one start, and a start that comes while it is stopping waits for the stop.
 *
 * Crash safety: a snapshot is recorded before the native sandbox is deleted. When the daemon
 * starts, a session that is not over is watched again (vercel_sandbox_resume_watch()), and a native
 * sandbox without a session is deleted.
 */
#include "base/clock.h"
#include "base/log.h"
#include "compat/vercel/vercel_sandbox.h"
#include "sandbox/network/port.h"

#include <stdio.h>
#include <string.h>

struct vercel_sandbox_wait {
	struct list link;
	vercel_sandbox_fn fn;
	void *arg;
};

static void wait_for(struct list *waits, vercel_sandbox_fn fn, void *arg)
{
	struct vercel_sandbox_wait *w;

	if (!fn)
		return;
	w = xnew0(struct vercel_sandbox_wait);
	*w = (struct vercel_sandbox_wait){.fn = fn, .arg = arg};
	list_append(waits, &w->link);
}

static void tell(struct vercel_sandbox *box, struct list *waits, const struct err *err)
{
	struct list all = LIST_INIT(all);
	struct vercel_sandbox_wait *w;

	while ((w = list_first(waits, struct vercel_sandbox_wait, link))) {
		list_remove(&w->link);
		list_append(&all, &w->link);
	}
	while ((w = list_first(&all, struct vercel_sandbox_wait, link))) {
		list_remove(&w->link);
		w->fn(err ? NULL : box, err, w->arg);
		free(w);
	}
}

static void forget(struct list *waits)
{
	struct vercel_sandbox_wait *w;

	while ((w = list_first(waits, struct vercel_sandbox_wait, link))) {
		list_remove(&w->link);
		free(w);
	}
}

void vercel_sandbox_forget_waits(struct vercel_sandbox *box)
{
	forget(&box->starts);
	forget(&box->stops);
}

void vercel_sandbox_move(struct vercel_sandbox *box, enum vercel_sandbox_phase phase)
{
	box->phase = phase;
	box->status_ms = vercel_now_ms();
}

struct sandbox *vercel_session_sandbox(const struct vercel_session *s)
{
	struct sandbox *native = s->is_over ? NULL
	                                    : sandbox_find(s->sandbox->vercel->api->fleet,
	                                                   s->sandbox->project_id, s->id);

	if (!native || sandbox_state(native) == SANDBOX_STOPPING ||
	    sandbox_state(native) == SANDBOX_STOPPED || sandbox_state(native) == SANDBOX_FAILED)
		return NULL;
	return native;
}

enum vercel_sandbox_phase vercel_sandbox_phase(const struct vercel_sandbox *box)
{
	const struct vercel_session *s = vercel_sandbox_session(box);

	/* It is ending, and on_ended() is about to be called. */
	return box->phase == VERCEL_SANDBOX_RUNNING && s && !vercel_session_sandbox(s)
	               ? VERCEL_SANDBOX_STOPPING
	               : box->phase;
}

struct session_call {
	struct vercel *vercel;
	char session_id[ID_SIZE];
};

struct session_call *session_call_new(const struct vercel_session *s)
{
	struct session_call *c = xnew0(struct session_call);

	c->vercel = s->sandbox->vercel;
	memcpy(c->session_id, s->id, sizeof(c->session_id));
	return c;
}

struct vercel_session *session_call_end(struct session_call *c)
{
	struct vercel_session *s;

	HASH_FIND_STR(c->vercel->sessions, c->session_id, s);
	free(c);
	return s;
}

static void serve_starts(struct vercel_sandbox *box);

/* Called when nobody waits for it any more. */
static void leave(struct vercel_sandbox *box)
{
	struct err err;

	(void)err_set(&err, ERR_NOT_FOUND, 0, "the sandbox was deleted");
	tell(box, &box->starts, &err);
	vercel_sandbox_remove(box);
}

static void close_books(struct vercel_session *s, struct sandbox *native, bool is_aborted)
{
	struct vercel_sandbox *box = s->sandbox;

	s->is_over = true;
	s->is_aborted = is_aborted;
	s->stopped_ms = vercel_now_ms();
	box->duration_ms += s->stopped_ms - MIN(s->started_ms, s->stopped_ms);
	box->cpu_ms += s->cpu_ms;
	box->in_bytes += s->in_bytes;
	box->out_bytes += s->out_bytes;
	vercel_sandbox_move(box, VERCEL_SANDBOX_STOPPED);
	vercel_sandbox_note(box);
	if (native)
		sandbox_delete(native, END_DELETED, NULL, NULL);
	tell(box, &box->stops, NULL);
	if (box->is_doomed)
		leave(box);
	else
		serve_starts(box);
}

static void on_freed(struct sandbox *native, const struct err *err, void *arg)
{
	struct vercel_session *s = session_call_end(arg);

	(void)native;
	(void)err;
	if (s && !s->is_over)
		close_books(s, NULL, s->is_aborted);
}

/* Everything to be kept of the session is recorded. Its drives are free when its end is
 * reported. */
static void finish(struct vercel_session *s, bool is_aborted)
{
	struct vercel_sandbox *box = s->sandbox;
	struct sandbox *native = sandbox_find(box->vercel->api->fleet, box->project_id, s->id);

	if (!native || json_object_size(box->config.mounts) == 0) {
		close_books(s, native, is_aborted);
		return;
	}
	s->is_aborted = is_aborted;
	sandbox_delete(native, END_DELETED, on_freed, session_call_new(s));
}

static void note_snapshot(struct vercel_session *s, const struct snapshot *sn)
{
	struct vercel_sandbox *box = s->sandbox;
	uint64_t expires_ms =
		box->has_wanted_expiry ? box->wanted_expires_ms : box->config.snapshot_expires_ms;

	if (!vercel_snapshot_find(box->vercel, box->project_id, snapshot_id(sn)))
		(void)vercel_snapshot_add(s, sn, expires_ms, box->is_manual);
	(void)snprintf(box->snapshot, sizeof(box->snapshot), "%s", snapshot_id(sn));
	(void)snprintf(box->taken_id, sizeof(box->taken_id), "%s", snapshot_id(sn));
	s->snapshotted_ms = vercel_now_ms();
	vercel_snapshots_evict(box);
}

static void on_taken(struct snapshot *sn, const struct err *err, void *arg)
{
	struct vercel_session *s = session_call_end(arg);

	if (!s || s->is_over)
		return;
	if (sn)
		note_snapshot(s, sn);
	else
		log_error("vercel.session_not_saved", "id=%s error='%s'", s->id, err->message);
	finish(s, /* is_aborted= */ !sn);
}

static void find_one(const struct snapshot *sn, void *arg)
{
	*(const struct snapshot **)arg = sn;
}

/* A snapshot that a gateway took before it died, without recording it. */
static const struct snapshot *find_taken(const struct vercel_session *s)
{
	const struct snapshot_filter filter = {
		.project_id = s->sandbox->project_id, .source_id = s->id, .limit = 1};
	const struct snapshot *found = NULL;
	bool has_more;

	snapshot_list(s->sandbox->vercel->api->fleet, &filter, find_one, &found, &has_more);
	return found;
}

static bool wants_snapshot(const struct vercel_sandbox *box)
{
	return !box->is_doomed &&
	       (box->config.is_persistent || box->phase == VERCEL_SANDBOX_SNAPSHOTTING);
}

static void keep(struct vercel_session *s, struct sandbox *native)
{
	struct vercel_sandbox *box = s->sandbox;
	struct snapshot_wish wish = {.expires_in_ms = box->has_wanted_expiry
	                                                      ? box->wanted_expires_ms
	                                                      : box->config.snapshot_expires_ms};
	const struct snapshot *taken = find_taken(s);
	struct session_call *c;
	struct err err;

	if (taken) {
		note_snapshot(s, taken);
		finish(s, false);
		return;
	}
	c = session_call_new(s);
	if (snapshot_take(native, &wish, on_taken, c, &err) == 0)
		return;
	free(c);
	log_error("vercel.session_not_saved", "id=%s error='%s'", s->id, err.message);
	finish(s, /* is_aborted= */ true);
}

static void on_usage(struct sandbox *native, const struct sandbox_figures *f, const struct err *err,
                     void *arg)
{
	struct vercel_session *s = session_call_end(arg);
	bool is_there;

	(void)err;
	if (!s || s->is_over)
		return;
	if (f) {
		s->cpu_ms = f->total.of[USAGE_CPU_NS] / 1000000;
		s->in_bytes = f->total.of[USAGE_NETWORK_IN_BYTES];
		s->out_bytes = f->total.of[USAGE_NETWORK_OUT_BYTES];
	}
	is_there = native && (vercel_session_sandbox(s) || sandbox_is_resting(native));
	if (is_there && wants_snapshot(s->sandbox))
		keep(s, native);
	else
		finish(s, /* is_aborted= */ false);
}

/* The session ends, whether its sandbox runs or has ended already. */
static void settle(struct vercel_session *s)
{
	struct sandbox *native =
		sandbox_find(s->sandbox->vercel->api->fleet, s->sandbox->project_id, s->id);
	struct session_call *c;

	if (!native) {
		finish(s, /* is_aborted= */ true);
		return;
	}
	c = session_call_new(s);
	if (sandbox_usage(native, on_usage, c, NULL) == 0)
		return;
	on_usage(native, NULL, NULL, c);
}

static void on_ended(struct sandbox *native, const struct err *err, void *arg)
{
	struct vercel_session *s = session_call_end(arg);

	(void)native;
	(void)err;
	if (!s || s->is_over || s->sandbox->phase != VERCEL_SANDBOX_RUNNING)
		return; /* it is being stopped by us, or is over */
	s->sandbox->is_manual = s->sandbox->has_wanted_expiry = false;
	s->sandbox->taken_id[0] = '\0';
	vercel_sandbox_move(s->sandbox, VERCEL_SANDBOX_STOPPING);
	settle(s);
}

void vercel_sandbox_stop(struct vercel_sandbox *box, const struct vercel_sandbox_stop *how,
                         vercel_sandbox_fn done, void *arg)
{
	struct vercel_session *s = vercel_sandbox_session(box);

	box->is_doomed |= how->is_last;
	wait_for(&box->stops, done, arg);
	if (box->phase == VERCEL_SANDBOX_STARTING || box->phase == VERCEL_SANDBOX_STOPPING ||
	    box->phase == VERCEL_SANDBOX_SNAPSHOTTING)
		return; /* the code that ends it will report it */
	if (box->phase == VERCEL_SANDBOX_STOPPED || !s) {
		tell(box, &box->stops, NULL);
		if (box->is_doomed)
			leave(box);
		return;
	}
	box->is_manual = how->is_snapshot;
	box->has_wanted_expiry = how->has_expiry;
	box->wanted_expires_ms = how->expires_ms;
	box->taken_id[0] = '\0';
	s->stop_asked_ms = vercel_now_ms();
	vercel_sandbox_move(box, how->is_snapshot ? VERCEL_SANDBOX_SNAPSHOTTING
	                                          : VERCEL_SANDBOX_STOPPING);
	settle(s);
}

void vercel_sandbox_open_ports(struct vercel_sandbox *box, struct sandbox *s)
{
	const struct port *port;
	char token[ID_SIZE];
	struct port row;
	struct err err;

	for (size_t i = 0; (port = port_at(s, i));) {
		bool is_wanted = false;

		for (size_t k = 0; k < json_array_size(box->config.ports); k++)
			is_wanted |= json_integer_value(json_array_get(box->config.ports, k)) ==
			             port->number;
		if (is_wanted || port_close(s, port->number, &row, &err) < 0)
			i++;
	}
	for (size_t k = 0; k < json_array_size(box->config.ports); k++) {
		const struct port_spec spec = {.number = (uint64_t)json_integer_value(
						       json_array_get(box->config.ports, k)),
		                               .is_public = true};
		bool is_open = false;

		for (size_t i = 0; (port = port_at(s, i)); i++)
			is_open |= port->number == spec.number;
		if (!is_open && port_open(s, &spec, token, &row, &err) < 0)
			log_error("port.not_opened", "id=%s error='%s'", sandbox_id(s),
			          err.message);
	}
}

void vercel_session_failed(struct vercel_sandbox *box, const struct err *err)
{
	vercel_sandbox_move(box, VERCEL_SANDBOX_STOPPED);
	tell(box, &box->starts, err);
	tell(box, &box->stops, NULL);
	if (!vercel_sandbox_session(box) || box->is_doomed)
		vercel_sandbox_remove(box); /* it never was anything */
}

void vercel_session_created(struct vercel_session *s, struct sandbox *native)
{
	struct vercel_sandbox *box = s->sandbox;
	struct vercel_snapshot *snapshot =
		s->source[0] ? vercel_snapshot_find(box->vercel, box->project_id, s->source) : NULL;

	vercel_sandbox_open_ports(box, native);
	s->started_ms = vercel_now_ms();
	vercel_sandbox_move(box, VERCEL_SANDBOX_RUNNING);
	json_decref(box->source);
	box->source = NULL;
	vercel_sandbox_note(box);
	if (snapshot)
		vercel_snapshot_use(box->vercel, snapshot);
	sandbox_await_end(native, on_ended, session_call_new(s));
	tell(box, &box->starts, NULL);
	if (box->is_doomed || !list_empty(&box->stops)) { /* asked for meanwhile */
		const struct vercel_sandbox_stop how = {.is_last = box->is_doomed};

		vercel_sandbox_stop(box, &how, NULL, NULL);
	}
}

bool vercel_sandbox_can_resume(const struct vercel_sandbox *box)
{
	const struct fleet *fleet = box->vercel->api->fleet;
	const struct snapshot *sn =
		box->snapshot[0] ? snapshot_find(fleet, box->project_id, box->snapshot) : NULL;

	return sn && snapshot_is_usable(sn);
}

static int check_snapshot(const struct vercel_sandbox *box, struct err *err)
{
	if (vercel_sandbox_can_resume(box) || (!box->snapshot[0] && !vercel_sandbox_session(box)))
		return 0;
	return err_set(err, ERR_GONE, ENODATA, "cannot resume sandbox: no snapshot available");
}

static void serve_starts(struct vercel_sandbox *box)
{
	struct err err;
	int r;

	if (list_empty(&box->starts))
		return;
	r = check_snapshot(box, &err);
	if (r == 0)
		r = vercel_session_create(box, &err);
	if (r < 0)
		tell(box, &box->starts, &err);
}

int vercel_sandbox_start(struct vercel_sandbox *box, vercel_sandbox_fn done, void *arg,
                         bool *ret_starts, struct err *err)
{
	enum vercel_sandbox_phase phase = vercel_sandbox_phase(box);
	int r = 0;

	*ret_starts = false;
	if (phase == VERCEL_SANDBOX_RUNNING) {
		done(box, NULL, arg);
		return 0;
	}
	if (phase == VERCEL_SANDBOX_STOPPED) {
		r = check_snapshot(box, err);
		if (r == 0)
			r = vercel_session_create(box, err);
	}
	if (r < 0)
		return r;
	*ret_starts = list_empty(&box->starts);
	wait_for(&box->starts, done, arg);
	return 0;
}

struct strays {
	struct vercel *vercel;
	char project_id[ID_SIZE];
};

static void look_at_sandbox(struct sandbox *native, void *arg)
{
	const struct strays *strays = arg;
	const char *box_id = json_string_value(json_object_get(sandbox_notes(native), VERCEL_NOTE));
	struct vercel_session *s;

	if (!box_id)
		return;
	HASH_FIND_STR(strays->vercel->sessions, sandbox_id(native), s);
	if (!s || s->is_over)
		sandbox_delete(native, END_DELETED, NULL, NULL);
}

static void look_at_project(const char *id, const char *name, uint64_t created_us, void *arg)
{
	struct strays *strays = arg;
	const struct sandbox_filter filter = {.project_id = id, .limit = SIZE_MAX};
	bool has_more;

	(void)name;
	(void)created_us;
	(void)fleet_list(strays->vercel->api->fleet, &filter, look_at_sandbox, strays, &has_more);
}

void vercel_sandbox_resume_watch(struct vercel *v)
{
	struct strays strays = {.vercel = v};

	keyring_each_project(v->api->keyring, look_at_project, &strays);
	list_for_each (&v->sandboxes, struct vercel_sandbox, box, link) {
		struct vercel_session *s = vercel_sandbox_session(box);
		struct sandbox *native;

		if (!s || s->is_over) {
			box->phase = VERCEL_SANDBOX_STOPPED;
			if (!s)
				vercel_sandbox_remove(box);
			continue;
		}
		native = vercel_session_sandbox(s);
		box->phase = native ? VERCEL_SANDBOX_RUNNING : VERCEL_SANDBOX_STOPPING;
		if (native)
			sandbox_await_end(native, on_ended, session_call_new(s));
		else
			settle(s);
	}
}
