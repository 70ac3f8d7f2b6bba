// SPDX-License-Identifier: Apache-2.0
/*
 * A lodge's life: sessions begin and end, one at a time.
 *
 *	start: sandbox from the settings and the current snapshot --> furnished --> running
 *	stop:  snapshot (of what runs, or of what a persistent sandbox has kept) --> recorded -->
 *	       sandbox deleted --> whoever waits for a start is served
 *
 * A session may also end by itself, at its deadline or by its programs; the sandbox of a persistent
 * lodge then has kept its files, and the same steps are taken from there. Callers queue: any number
 * that want it to run wait for one start, and a start that comes while it is stopping waits for
 * that.
 *
 * Crash-only: a snapshot is recorded before its sandbox is deleted. After a start of the daemon a
 * session that is not over is looked at again (lodge_resume_watch()), and a sandbox that was made
 *for a lodge which does not know it is deleted.
 */
#include "base/clock.h"
#include "base/log.h"
#include "compat/vercel/lodge.h"
#include "sandbox/port.h"

#include <stdio.h>
#include <string.h>

struct lodge_wait {
	struct list link;
	lodge_fn fn;
	void *arg;
};

static void wait_for(struct list *waits, lodge_fn fn, void *arg)
{
	struct lodge_wait *w;

	if (!fn)
		return;
	w = xnew0(struct lodge_wait);
	*w = (struct lodge_wait){.fn = fn, .arg = arg};
	list_append(waits, &w->link);
}

static void tell(struct lodge *b, struct list *waits, const struct err *err)
{
	struct list all = LIST_INIT(all);
	struct lodge_wait *w;

	while ((w = list_first(waits, struct lodge_wait, link))) {
		list_remove(&w->link);
		list_append(&all, &w->link);
	}
	while ((w = list_first(&all, struct lodge_wait, link))) {
		list_remove(&w->link);
		w->fn(err ? NULL : b, err, w->arg);
		free(w);
	}
}

static void forget(struct list *waits)
{
	struct lodge_wait *w;

	while ((w = list_first(waits, struct lodge_wait, link))) {
		list_remove(&w->link);
		free(w);
	}
}

void lodge_forget_waits(struct lodge *b)
{
	forget(&b->starts);
	forget(&b->stops);
}

void lodge_move(struct lodge *b, enum lodge_phase phase)
{
	b->phase = phase;
	b->status_ms = vercel_now_ms();
}

struct sandbox *stay_sandbox(const struct stay *s)
{
	struct sandbox *native = s->is_over ? NULL
	                                    : sandbox_find(s->lodge->vercel->api->fleet,
	                                                   s->lodge->project_id, s->id);

	if (!native || sandbox_state(native) == SANDBOX_STOPPING ||
	    sandbox_state(native) == SANDBOX_STOPPED || sandbox_state(native) == SANDBOX_FAILED)
		return NULL;
	return native;
}

enum lodge_phase lodge_phase(const struct lodge *b)
{
	const struct stay *s = lodge_stay(b);

	/* Its end is under way, and on_ended() is about to hear of it. */
	return b->phase == LODGE_RUNNING && s && !stay_sandbox(s) ? LODGE_STOPPING : b->phase;
}

struct errand {
	struct vercel *vercel;
	char session_id[ID_SIZE];
};

struct errand *errand_new(const struct stay *s)
{
	struct errand *c = xnew0(struct errand);

	c->vercel = s->lodge->vercel;
	memcpy(c->session_id, s->id, sizeof(c->session_id));
	return c;
}

struct stay *errand_end(struct errand *c)
{
	struct stay *s;

	HASH_FIND_STR(c->vercel->sessions, c->session_id, s);
	free(c);
	return s;
}

static void on_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	(void)arg;
}

static void serve_starts(struct lodge *b);

/* Nobody is left waiting for it. */
static void leave(struct lodge *b)
{
	struct err err;

	(void)err_set(&err, ERR_NOT_FOUND, 0, "the sandbox was deleted");
	tell(b, &b->starts, &err);
	lodge_remove(b);
}

static void close_books(struct stay *s, struct sandbox *native, bool is_aborted)
{
	struct lodge *b = s->lodge;

	s->is_over = true;
	s->is_aborted = is_aborted;
	s->stopped_ms = vercel_now_ms();
	b->duration_ms += s->stopped_ms - MIN(s->started_ms, s->stopped_ms);
	b->cpu_ms += s->cpu_ms;
	b->in_bytes += s->in_bytes;
	b->out_bytes += s->out_bytes;
	lodge_move(b, LODGE_STOPPED);
	lodge_note(b);
	if (native)
		sandbox_delete(native, END_DELETED, on_deleted, NULL);
	tell(b, &b->stops, NULL);
	if (b->is_doomed)
		leave(b);
	else
		serve_starts(b);
}

static void on_freed(struct sandbox *native, const struct err *err, void *arg)
{
	struct stay *s = errand_end(arg);

	(void)native;
	(void)err;
	if (s && !s->is_over)
		close_books(s, NULL, s->is_aborted);
}

/* All of the session that is to be kept is recorded. Its drives are free when its end is told. */
static void finish(struct stay *s, bool is_aborted)
{
	struct lodge *b = s->lodge;
	struct sandbox *native = sandbox_find(b->vercel->api->fleet, b->project_id, s->id);

	if (!native || json_object_size(b->config.mounts) == 0) {
		close_books(s, native, is_aborted);
		return;
	}
	s->is_aborted = is_aborted;
	sandbox_delete(native, END_DELETED, on_freed, errand_new(s));
}

static void note_snapshot(struct stay *s, const struct snapshot *sn)
{
	struct lodge *b = s->lodge;
	uint64_t expires_ms =
		b->has_wanted_expiry ? b->wanted_expires_ms : b->config.snapshot_expires_ms;

	if (!still_find(b->vercel, b->project_id, snapshot_id(sn)))
		(void)still_add(s, sn, expires_ms, b->is_manual);
	(void)snprintf(b->snapshot, sizeof(b->snapshot), "%s", snapshot_id(sn));
	(void)snprintf(b->still_id, sizeof(b->still_id), "%s", snapshot_id(sn));
	s->snapshotted_ms = vercel_now_ms();
	stills_evict(b);
}

static void on_taken(struct snapshot *sn, const struct err *err, void *arg)
{
	struct stay *s = errand_end(arg);

	if (!s || s->is_over)
		return;
	if (sn)
		note_snapshot(s, sn);
	else
		log_error("vercel.unsaved_session", "id=%s error='%s'", s->id, err->message);
	finish(s, /* is_aborted= */ !sn);
}

static void find_one(const struct snapshot *sn, void *arg)
{
	*(const struct snapshot **)arg = sn;
}

/* What a gateway took that died before it could write it down. */
static const struct snapshot *find_taken(const struct stay *s)
{
	const struct snapshot_filter filter = {
		.project_id = s->lodge->project_id, .source_id = s->id, .limit = 1};
	const struct snapshot *found = NULL;
	bool has_more;

	snapshot_list(s->lodge->vercel->api->fleet, &filter, find_one, &found, &has_more);
	return found;
}

static bool wants_snapshot(const struct lodge *b)
{
	return !b->is_doomed && (b->config.is_persistent || b->phase == LODGE_SNAPSHOTTING);
}

static void keep(struct stay *s, struct sandbox *native)
{
	struct lodge *b = s->lodge;
	struct snapshot_wish wish = {.expires_in_ms = b->has_wanted_expiry
	                                                      ? b->wanted_expires_ms
	                                                      : b->config.snapshot_expires_ms};
	const struct snapshot *taken = find_taken(s);
	struct errand *c;
	struct err err;

	if (taken) {
		note_snapshot(s, taken);
		finish(s, false);
		return;
	}
	c = errand_new(s);
	if (snapshot_take(native, &wish, on_taken, c, &err) == 0)
		return;
	free(c);
	log_error("vercel.unsaved_session", "id=%s error='%s'", s->id, err.message);
	finish(s, /* is_aborted= */ true);
}

static void on_usage(struct sandbox *native, const struct sandbox_figures *f, const struct err *err,
                     void *arg)
{
	struct stay *s = errand_end(arg);
	bool is_there;

	(void)err;
	if (!s || s->is_over)
		return;
	if (f) {
		s->cpu_ms = f->total.of[USAGE_CPU_NS] / 1000000;
		s->in_bytes = f->total.of[USAGE_NETWORK_IN_BYTES];
		s->out_bytes = f->total.of[USAGE_NETWORK_OUT_BYTES];
	}
	is_there = native && (stay_sandbox(s) || sandbox_is_resting(native));
	if (is_there && wants_snapshot(s->lodge))
		keep(s, native);
	else
		finish(s, /* is_aborted= */ false);
}

/* The session ends, whether its sandbox runs or has ended already. */
static void settle(struct stay *s)
{
	struct sandbox *native =
		sandbox_find(s->lodge->vercel->api->fleet, s->lodge->project_id, s->id);
	struct errand *c;

	if (!native) {
		finish(s, /* is_aborted= */ true);
		return;
	}
	c = errand_new(s);
	if (sandbox_usage(native, on_usage, c, NULL) == 0)
		return;
	on_usage(native, NULL, NULL, c);
}

static void on_ended(struct sandbox *native, const struct err *err, void *arg)
{
	struct stay *s = errand_end(arg);

	(void)native;
	(void)err;
	if (!s || s->is_over || s->lodge->phase != LODGE_RUNNING)
		return; /* it is being stopped by us, or is over */
	s->lodge->is_manual = s->lodge->has_wanted_expiry = false;
	s->lodge->still_id[0] = '\0';
	lodge_move(s->lodge, LODGE_STOPPING);
	settle(s);
}

void lodge_stop(struct lodge *b, const struct lodge_stop *how, lodge_fn done, void *arg)
{
	struct stay *s = lodge_stay(b);

	b->is_doomed |= how->is_last;
	wait_for(&b->stops, done, arg);
	if (b->phase == LODGE_STARTING || b->phase == LODGE_STOPPING ||
	    b->phase == LODGE_SNAPSHOTTING)
		return; /* whoever is at it will tell */
	if (b->phase == LODGE_STOPPED || !s) {
		tell(b, &b->stops, NULL);
		if (b->is_doomed)
			leave(b);
		return;
	}
	b->is_manual = how->is_snapshot;
	b->has_wanted_expiry = how->has_expiry;
	b->wanted_expires_ms = how->expires_ms;
	b->still_id[0] = '\0';
	s->stop_asked_ms = vercel_now_ms();
	lodge_move(b, how->is_snapshot ? LODGE_SNAPSHOTTING : LODGE_STOPPING);
	settle(s);
}

void lodge_open_ports(struct lodge *b, struct sandbox *s)
{
	const struct port *port;
	char token[ID_SIZE];
	struct port row;
	struct err err;

	for (size_t i = 0; (port = port_at(s, i));) {
		bool is_wanted = false;

		for (size_t k = 0; k < json_array_size(b->config.ports); k++)
			is_wanted |= json_integer_value(json_array_get(b->config.ports, k)) ==
			             port->number;
		if (is_wanted || port_close(s, port->number, &row, &err) < 0)
			i++;
	}
	for (size_t k = 0; k < json_array_size(b->config.ports); k++) {
		const struct port_spec spec = {
			.number = (uint64_t)json_integer_value(json_array_get(b->config.ports, k)),
			.is_public = true};
		bool is_open = false;

		for (size_t i = 0; (port = port_at(s, i)); i++)
			is_open |= port->number == spec.number;
		if (!is_open && port_open(s, &spec, token, &row, &err) < 0)
			log_error("port.unopened", "id=%s error='%s'", sandbox_id(s), err.message);
	}
}

void lodge_unborn(struct lodge *b, const struct err *err)
{
	lodge_move(b, LODGE_STOPPED);
	tell(b, &b->starts, err);
	tell(b, &b->stops, NULL);
	if (!lodge_stay(b) || b->is_doomed)
		lodge_remove(b); /* it never was anything */
}

void lodge_born(struct stay *s, struct sandbox *native)
{
	struct lodge *b = s->lodge;
	struct still *still = s->source[0] ? still_find(b->vercel, b->project_id, s->source) : NULL;

	lodge_open_ports(b, native);
	s->started_ms = vercel_now_ms();
	lodge_move(b, LODGE_RUNNING);
	json_decref(b->source);
	b->source = NULL;
	lodge_note(b);
	if (still)
		still_use(b->vercel, still);
	sandbox_await_end(native, on_ended, errand_new(s));
	tell(b, &b->starts, NULL);
	if (b->is_doomed || !list_empty(&b->stops)) { /* asked for meanwhile */
		const struct lodge_stop how = {.is_last = b->is_doomed};

		lodge_stop(b, &how, NULL, NULL);
	}
}

bool lodge_can_resume(const struct lodge *b)
{
	const struct fleet *fleet = b->vercel->api->fleet;
	const struct snapshot *sn =
		b->snapshot[0] ? snapshot_find(fleet, b->project_id, b->snapshot) : NULL;

	return sn && snapshot_is_usable(sn);
}

static int check_snapshot(const struct lodge *b, struct err *err)
{
	if (lodge_can_resume(b) || (!b->snapshot[0] && !lodge_stay(b)))
		return 0;
	return err_set(err, ERR_GONE, ENODATA, "cannot resume sandbox: no snapshot available");
}

static void serve_starts(struct lodge *b)
{
	struct err err;
	int r;

	if (list_empty(&b->starts))
		return;
	r = check_snapshot(b, &err);
	if (r == 0)
		r = birth_begin(b, &err);
	if (r < 0)
		tell(b, &b->starts, &err);
}

int lodge_start(struct lodge *b, lodge_fn done, void *arg, bool *ret_starts, struct err *err)
{
	enum lodge_phase phase = lodge_phase(b);
	int r = 0;

	*ret_starts = false;
	if (phase == LODGE_RUNNING) {
		done(b, NULL, arg);
		return 0;
	}
	if (phase == LODGE_STOPPED) {
		r = check_snapshot(b, err);
		if (r == 0)
			r = birth_begin(b, err);
	}
	if (r < 0)
		return r;
	*ret_starts = list_empty(&b->starts);
	wait_for(&b->starts, done, arg);
	return 0;
}

struct strays {
	struct vercel *vercel;
	char project_id[ID_SIZE];
};

static void look_at_sandbox(struct sandbox *native, void *arg)
{
	const struct strays *strays = arg;
	const char *lodge_id =
		json_string_value(json_object_get(sandbox_notes(native), LODGE_NOTE));
	struct stay *s;

	if (!lodge_id)
		return;
	HASH_FIND_STR(strays->vercel->sessions, sandbox_id(native), s);
	if (!s || s->is_over)
		sandbox_delete(native, END_DELETED, on_deleted, NULL);
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

void lodge_resume_watch(struct vercel *v)
{
	struct strays strays = {.vercel = v};

	keyring_each_project(v->api->keyring, look_at_project, &strays);
	list_for_each (&v->lodges, struct lodge, b, link) {
		struct stay *s = lodge_stay(b);
		struct sandbox *native;

		if (!s || s->is_over) {
			b->phase = LODGE_STOPPED;
			if (!s)
				lodge_remove(b);
			continue;
		}
		native = stay_sandbox(s);
		b->phase = native ? LODGE_RUNNING : LODGE_STOPPING;
		if (native)
			sandbox_await_end(native, on_ended, errand_new(s));
		else
			settle(s);
	}
}
