// SPDX-License-Identifier: Apache-2.0
/*
 * Entries wait in memory until the end of the turn, and get their number and hash only when they
 * are written. If the write fails, the chain stays as it was and the write is tried again. The
 * number of waiting entries is bounded; further ones are lost, and reported as suppressed once
 * there is room.
 */
#include "event/log_private.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/units.h"
#include "event/entry.h"
#include "event/retention.h"
#include "event/verify.h"

#include <inttypes.h>
#include <string.h>

#define WAITING_MAX   4096 /* entries; 2 MiB at most of them; half of it for the audit log */
#define RETRY_US      SECOND_US
#define LATER_US      (SECOND_US / 4) /* until entries of the audit log are written … */
#define LATER_MAX     32              /* … or so many wait: half a millisecond's work */
#define AUDIT_NAME    "audit_rate"
#define RETAIN_US     (60 * SECOND_US)
#define REFUSED_ID    "key.refused" /* the bucket of refused clients, who have no sandbox */
#define REFUSED_COST  10            /* strangers get a tenth of a sandbox's rate */
#define LOST_NAME     "disk"
#define SUPPRESS_NAME "rate"

struct waiting {
	struct list link;
	enum event_type type;
	uint64_t at_us;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE], exec_id[ID_SIZE], key_id[ID_SIZE];
	char request_id[EVENT_REQUEST_ID_SIZE];
	char client[EVENT_CLIENT_SIZE], agent[EVENT_AGENT_SIZE];
	const char *person; /* JSON, behind data; "" = none */
	char data[];        /* JSON */
};

static void write_due(struct loop *loop, void *arg);

/* Entries that a guest or stranger can cause at will. All others are bounded by what they cost. */
static bool is_minor(enum event_type type)
{
	return BIT64(type) & (BIT64(EVENT_EXEC_STARTED) | BIT64(EVENT_EXEC_EXITED) |
	                      BIT64(EVENT_CONTEXT_CREATED) | BIT64(EVENT_CONTEXT_ENDED) |
	                      BIT64(EVENT_SANDBOX_CHANGED) | BIT64(EVENT_POLICY_DECIDED) |
	                      BIT64(EVENT_KEY_REFUSED) | BIT64(EVENT_PERSON_REFUSED));
}

static bool is_audit(enum event_type type)
{
	return type == EVENT_API_READ || type == EVENT_API_WRITE;
}

static void copy(char *ret, size_t size, const char *text)
{
	size_t len = text ? strnlen(text, size - 1) : 0;

	if (len > 0)
		memcpy(ret, text, len);
	ret[len] = '\0';
}

struct json_writer *event_begin(struct event *e, struct event_log *log, enum event_type type,
                                const char *project_id, const char *sandbox_id)
{
	*e = (struct event){
		.log = log, .type = type, .project_id = project_id, .sandbox_id = sandbox_id};
	buf_init(&e->data, EVENT_DATA_MAX);
	json_writer_init(&e->w, &e->data);
	json_open_object(&e->w, NULL);
	return &e->w;
}

void event_put_text(struct json_writer *w, const char *name, const char *text)
{
	size_t len = text ? strnlen(text, EVENT_TEXT_MAX) : 0;
	bool is_cut;

	if (!text) {
		json_put_null(w, name);
		return;
	}
	if (text[len])
		len = MAX(utf8_valid_prefix(text, len, &is_cut), len - 3);
	json_put_strn(w, name, text, len);
}

static void ask_for_write(struct event_log *log)
{
	if (log->is_write_due || loop_timer_is_set(log->retry))
		return;
	log->is_write_due = true;
	loop_defer(log->loop, write_due, log);
}

static void join_waiting(struct event_log *log)
{
	list_for_each (&log->later, struct waiting, w, link) {
		list_remove(&w->link);
		list_append(&log->waiting, &w->link);
	}
	log->n_waiting += log->n_later;
	log->n_later = 0;
	if (log->n_waiting > 0)
		ask_for_write(log);
}

static void on_join(struct loop *loop, void *arg)
{
	(void)loop;
	join_waiting(arg);
}

static void wait_later(struct event_log *log, struct waiting *w)
{
	list_append(&log->later, &w->link);
	log->n_later++;
	if (log->n_later >= LATER_MAX)
		join_waiting(log);
	else if (!loop_timer_is_set(log->join))
		loop_timer_set_in(log->join, LATER_US);
}

static void enqueue(struct event_log *log, const struct event *e, const char *data)
{
	const size_t most = is_audit(e->type) ? WAITING_MAX / 2 : WAITING_MAX;
	size_t size = strlen(data) + 1, person_size = strlen(log->person) + 1;
	struct waiting *w;

	if (log->n_waiting + log->n_later >= most) {
		log->lost++;
		log->lost_untold++;
		return;
	}
	w = xcalloc(1, sizeof(*w) + size + person_size);
	w->type = e->type;
	w->at_us = clock_wall_us();
	copy(w->project_id, sizeof(w->project_id), e->project_id);
	copy(w->sandbox_id, sizeof(w->sandbox_id), e->sandbox_id);
	copy(w->exec_id, sizeof(w->exec_id), e->exec_id);
	copy(w->key_id, sizeof(w->key_id), log->key_id);
	copy(w->request_id, sizeof(w->request_id), log->request_id);
	copy(w->client, sizeof(w->client), log->client);
	copy(w->agent, sizeof(w->agent), log->agent);
	memcpy(w->data, data, size);
	memcpy(w->data + size, log->person, person_size);
	w->person = w->data + size;
	log->is_told |=
		!log->helpers_project_id[0] || strcmp(w->project_id, log->helpers_project_id) != 0;
	if (is_audit(w->type)) {
		wait_later(log, w);
		return;
	}
	list_append(&log->waiting, &w->link);
	log->n_waiting++;
	ask_for_write(log);
}

static void tell_suppressed(struct event_log *log, const char *project_id, const char *sandbox_id,
                            const char *why, uint64_t count)
{
	struct event e;
	struct json_writer *w = event_begin(&e, log, EVENT_SUPPRESSED, project_id, sandbox_id);

	json_put_str(w, "why", why);
	json_put_u64(w, "count", count);
	event_end(&e);
}

static void on_bucket(const struct rate_bucket *b, void *arg)
{
	const bool is_stranger = strcmp(b->id, REFUSED_ID) == 0;
	const bool is_of_audit = strcmp(b->id, b->project_id) == 0;

	tell_suppressed(arg, is_stranger ? NULL : b->project_id,
	                is_stranger || is_of_audit ? NULL : b->id,
	                is_of_audit ? AUDIT_NAME : SUPPRESS_NAME, b->suppressed);
}

static void on_sweep(struct loop *loop, void *arg)
{
	struct event_log *log = arg;

	rate_sweep(&log->rate, loop_now_us(loop), on_bucket, log);
	if (log->rate.buckets)
		loop_timer_set_in(log->sweep, SECOND_US);
}

static bool is_over_rate(struct event_log *log, const struct event *e)
{
	const char *of_sandbox = e->sandbox_id ? e->sandbox_id : REFUSED_ID;
	/* The audit log's bucket is the project's: its sandboxes' entries do not wait for it. */
	const char *id = is_audit(e->type) && e->project_id ? e->project_id : of_sandbox;
	const bool is_stranger = e->type == EVENT_KEY_REFUSED || e->type == EVENT_PERSON_REFUSED;
	unsigned cost = is_stranger ? REFUSED_COST : 1;
	bool may;

	if (!is_minor(e->type) && !is_audit(e->type))
		return false;
	may = rate_take(&log->rate, id, e->project_id ? e->project_id : "", cost,
	                clock_steady_us());
	if (!loop_timer_is_set(log->sweep))
		loop_timer_set_in(log->sweep, SECOND_US);
	log->suppressed += !may;
	return !may;
}

void event_end(struct event *e)
{
	struct event_log *log = e->log;
	int r;

	json_close_object(&e->w);
	r = json_writer_end(&e->w);
	if (log && !is_over_rate(log, e)) {
		if (e->type == EVENT_SANDBOX_ENDED)
			rate_close(&log->rate, e->sandbox_id, on_bucket, log);
		enqueue(log, e, r == 0 ? buf_str(&e->data) : "{\"truncated\":true}");
	}
	buf_done(&e->data);
}

void event_log_set_origin(struct event_log *log, const struct event_origin *origin)
{
	if (!log)
		return;
	log->is_told = false;
	copy(log->key_id, sizeof(log->key_id), origin->key_id);
	copy(log->request_id, sizeof(log->request_id), origin->request_id);
	copy(log->person, sizeof(log->person), origin->person);
	copy(log->client, sizeof(log->client), origin->client);
	copy(log->agent, sizeof(log->agent), origin->agent);
	for (char *p = log->agent; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
}

static void seal_row(struct chains *chains, struct chain *chain, const struct waiting *w,
                     struct event_row *row)
{
	struct event_chain_row *next = &chain->next;

	*row = (struct event_row){
		.place = ++chains->next_place,
		.seq = ++next->head_seq,
		.at_us = w->at_us,
		.type = event_type_name(w->type),
		.project_id = w->project_id,
		.chain = next->project_id,
		.sandbox_id = w->sandbox_id,
		.exec_id = w->exec_id,
		.key_id = w->key_id,
		.request_id = w->request_id,
		.person = w->person,
		.client = w->client,
		.agent = w->agent,
		.data = w->data,
	};
	memcpy(row->prev, next->head_hash, sizeof(row->prev));
	if (next->count++ == 0)
		chain->first_us = row->at_us;
	next->bytes += entry_seal(row);
	next->head_place = row->place;
	memcpy(next->head_hash, row->hash, sizeof(row->hash));
}

bool event_log_was_told(const struct event_log *log)
{
	return log && log->is_told;
}

/* Makes rows of the first waiting entries, which continue their chains. */
static int seal_batch(struct event_log *log, struct batch *b, struct err *err)
{
	list_for_each (&log->waiting, struct waiting, w, link) {
		char name[EVENT_CHAIN_SIZE];
		struct chain *chain;
		bool is_new;
		int r;

		if (b->n == WRITE_BATCH)
			break;
		chain_name(name, w->project_id, /* is_former= */ false, is_audit(w->type));
		r = chain_move(&log->chains, name, &chain, &is_new, err);
		if (r < 0)
			return r;
		if (is_new) {
			b->chains[b->n_moved] = &chain->next;
			b->moved[b->n_moved++] = chain;
		}
		seal_row(&log->chains, chain, w, &b->rows[b->n++]);
	}
	return 0;
}

static void drop_waiting(struct event_log *log, size_t n)
{
	struct waiting *w;

	for (; n > 0 && (w = list_first(&log->waiting, struct waiting, link)); n--) {
		list_remove(&w->link);
		free(w);
		log->n_waiting--;
	}
}

static int write_batch(struct event_log *log, int (*also)(void *arg, struct err *err), void *arg)
{
	struct batch *b = &log->batch;
	struct err err;
	int r;

	b->n = b->n_moved = 0;
	r = seal_batch(log, b, &err);
	if (r == 0)
		r = store_events_add(log->rows, b->rows, b->n, b->chains, b->n_moved, also, arg,
		                     &err);
	chains_settle(&log->chains, b->moved, b->n_moved, r == 0);
	if (r < 0) {
		log_error("events.not_saved", "waiting=%zu error='%s'", log->n_waiting,
		          err.message);
		return r;
	}
	drop_waiting(log, b->n);
	return 0;
}

/* Removes old entries, a batch at a time; the timer comes back for the rest. */
static void retain(struct loop *loop, void *arg)
{
	struct event_log *log = arg;
	struct err err;
	int r = retention_step(&log->chains, &log->limits, clock_wall_us(), &err);

	(void)loop;
	if (r < 0)
		log_error("events.not_pruned", "error='%s'", err.message);
	loop_timer_set_in(log->retain, r > 0 ? 0 : RETAIN_US);
}

void event_log_set_age(struct event_log *log, const char *project_id, uint64_t age_us)
{
	if (!log)
		return;
	chains_set_age(&log->chains, project_id, age_us);
	loop_timer_set_in(log->retain, 0);
}

static void tell_watches(struct event_log *log)
{
	list_for_each (&log->watches, struct event_watch, w, link)
		w->fn(w->arg);
}

static void write_due(struct loop *loop, void *arg)
{
	struct event_log *log = arg;
	int r = 0;

	(void)loop;
	log->is_write_due = false;
	if (!log->rows) /* closed in this turn */
		return;
	while (r == 0 && log->n_waiting > 0)
		r = write_batch(log, NULL, NULL);
	if (r < 0) {
		loop_timer_set_in(log->retry, RETRY_US);
		return;
	}
	if (log->lost_untold > 0) {
		tell_suppressed(log, NULL, NULL, LOST_NAME, log->lost_untold);
		log->lost_untold = 0;
	}
	if (retention_is_due(&log->chains, &log->limits))
		loop_timer_set_in(log->retain, 0);
	tell_watches(log);
}

int event_log_save(struct event_log *log, int (*save)(void *arg, struct err *err), void *arg,
                   struct err *err)
{
	int r = 0;

	if (!log || log->n_waiting == 0)
		return save(arg, err);
	while (r == 0 && log->n_waiting > WRITE_BATCH)
		r = write_batch(log, NULL, NULL);
	if (r == 0)
		r = write_batch(log, save, arg);
	return r == 0 ? 0 : save(arg, err);
}

int event_log_open(const struct event_config *config, struct event_log **ret, struct err *err)
{
	struct event_log *log = xnew0(struct event_log);
	int r;

	log->loop = config->loop;
	log->limits = config->limits;
	copy(log->helpers_project_id, sizeof(log->helpers_project_id), config->helpers_project_id);
	log->rate.per_second = config->limits.rate;
	list_init(&log->waiting);
	list_init(&log->later);
	list_init(&log->watches);
	log->retry = loop_timer_new(log->loop, write_due, log);
	log->join = loop_timer_new(log->loop, on_join, log);
	log->sweep = loop_timer_new(log->loop, on_sweep, log);
	log->retain = loop_timer_new(log->loop, retain, log);
	r = store_events_open(config->store, &log->rows, err);
	if (r == 0)
		r = chains_load(&log->chains, log->rows, config->boot_id, err);
	if (r < 0) {
		event_log_close(log);
		return r;
	}
	loop_timer_set_in(log->retain, 0);
	*ret = log;
	return 0;
}

static void free_log(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void event_log_close(struct event_log *log)
{
	if (!log)
		return;
	join_waiting(log);
	while (log->n_waiting > 0 && log->rows && write_batch(log, NULL, NULL) == 0)
		;
	drop_waiting(log, log->n_waiting);
	rate_done(&log->rate);
	chains_done(&log->chains);
	loop_timer_free(log->retry);
	loop_timer_free(log->join);
	loop_timer_free(log->sweep);
	loop_timer_free(log->retain);
	store_events_close(take_ptr(log->rows));
	loop_defer(log->loop, free_log, log); /* behind a write_due() of this turn */
}

void event_watch_add(struct event_log *log, struct event_watch *w)
{
	list_append(&log->watches, &w->link);
}

void event_watch_remove(struct event_watch *w)
{
	if (w->link.next) /* one that was never added is all zeros */
		list_remove(&w->link);
}

void event_log_status(const struct event_log *log, struct event_status *ret)
{
	*ret = (struct event_status){
		.place = log->chains.place,
		.count = log->chains.count,
		.bytes = log->chains.bytes,
		.suppressed = log->suppressed,
		.lost = log->lost,
	};
}
