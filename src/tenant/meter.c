// SPDX-License-Identifier: Apache-2.0
/*
 * Between two readings, a cgroup's CPU counter says exactly what was used. Memory and disk are
 * levels: the mean of two readings is used for the time between them. At the last reading all
 * processes are dead and memory is empty, so the value of the reading before is used, or the peak
 * if there was none.
 *
 * A period that spans midnight (say, while the gateway was down) is divided by time. Counts (execs,
 * creates, bytes) belong to the day on which they were counted.
 *
 * Figures wait in memory for meters_write(). If it fails, they stay and the next call tries again;
 * a closed meter is freed only when its last figures are written.
 */
#include "tenant/meter.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text/decimal.h"
#include "base/units.h"
#include "tenant/day.h"
#include "tenant/price.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

struct slice { /* of a day, not written yet */
	int32_t day;
	struct usage usage;
};

struct meter {
	struct meters *meters;
	char sandbox_id[ID_SIZE], project_id[ID_SIZE], key_id[ID_SIZE];
	uint64_t memory_limit_bytes;
	uint64_t charged_to_us; /* in whole milliseconds behind where it began */
	uint64_t counted_cpu_ns, memory_bytes, disk_bytes;
	bool is_held;
	bool has_reading; /* since this run began */
	bool is_closed;
	struct usage total;
	struct slice *slices;
	size_t n_slices;
	struct list dirty; /* in meters->dirty: its row is behind */
	UT_hash_handle hh;
};

struct meters {
	struct store_usage *store;
	char boot_id[40];
	struct meter *by_id; /* not the closed */
	struct list dirty;
	meters_fn used;
	void *used_arg;
	bool is_unsynced;
	bool has_failed; /* and was told so */
};

DEFINE_FREEP(struct meters, meters_close)

static void mark(struct meter *m)
{
	m->meters->is_unsynced = true;
	if (list_empty(&m->dirty))
		list_append(&m->meters->dirty, &m->dirty);
}

static void add_to_day(struct meter *m, int32_t day, const struct usage *more)
{
	size_t i = 0;

	while (i < m->n_slices && m->slices[i].day != day)
		i++;
	if (i == m->n_slices) {
		m->slices = xrealloc(m->slices, (i + 1) * sizeof(*m->slices));
		m->slices[m->n_slices++] = (struct slice){.day = day};
	}
	usage_add(&m->slices[i].usage, more);
}

/* Divides usage among the days of a period that ends at to_us (wall clock). */
static void add_stretch(struct meter *m, const struct usage *more, uint64_t to_us, uint64_t len_us)
{
	struct usage rest = *more;
	uint64_t at = to_us - MIN(len_us, to_us), left = to_us - at;

	while (day_of(at) != day_of(to_us) && left > 0) {
		uint64_t part = DAY_US - at % DAY_US;
		struct usage of_day;

		for (size_t i = 0; i < USAGE_FIGURE_COUNT; i++) {
			of_day.of[i] = scale_u64(rest.of[i], part, left);
			rest.of[i] -= of_day.of[i];
		}
		add_to_day(m, day_of(at), &of_day);
		at += part;
		left -= part;
	}
	add_to_day(m, day_of(to_us), &rest);
}

static void note(struct meter *m, const struct usage *more)
{
	struct meters *ms = m->meters;

	usage_add(&m->total, more);
	mark(m);
	if (ms->used)
		ms->used(m->project_id, m->key_id, more, ms->used_arg);
}

/* Charges time up to to_us, with the memory and disk levels of that time, and CPU. */
static void charge(struct meter *m, uint64_t to_us, uint64_t memory_bytes, uint64_t disk_bytes,
                   uint64_t cpu_ns)
{
	uint64_t ms = to_us > m->charged_to_us ? (to_us - m->charged_to_us) / MILLISECOND_US : 0;
	uint64_t now_us = clock_steady_us();
	/* The wall clock's time at to_us, which may be a while ago. */
	uint64_t wall_us = clock_wall_us() - (now_us > to_us ? now_us - to_us : 0);
	struct usage more = {.of = {
				     [USAGE_CPU_NS] = cpu_ns,
				     [USAGE_DISK_MIB_MS] = scale_u64(disk_bytes, ms, MIB),
			     }};

	m->charged_to_us += ms * MILLISECOND_US;
	if (!m->is_held) {
		more.of[USAGE_RUNNING_MS] = ms;
		more.of[USAGE_MEMORY_MIB_MS] = scale_u64(m->memory_limit_bytes, ms, MIB);
		more.of[USAGE_MEMORY_USED_MIB_MS] = scale_u64(memory_bytes, ms, MIB);
	}
	add_stretch(m, &more, wall_us, ms * MILLISECOND_US);
	note(m, &more);
}

static void count(struct meter *m, const struct usage *more)
{
	add_to_day(m, day_of(clock_wall_us()), more);
	note(m, more);
}

static uint64_t mean(uint64_t a, uint64_t b)
{
	return a / 2 + b / 2 + (a & b & 1);
}

/* A counter never decreases while its cgroup lives; if it seems to, it could not be read. */
static uint64_t new_cpu_ns(const struct meter *m, const struct guest_usage *now)
{
	return now->cpu_ns > m->counted_cpu_ns ? now->cpu_ns - m->counted_cpu_ns : 0;
}

void meter_read(struct meter *m, const struct guest_usage *now)
{
	if (m->is_held)
		return;
	charge(m, clock_steady_us(),
	       m->has_reading ? mean(m->memory_bytes, now->memory_bytes) : now->memory_bytes,
	       mean(m->disk_bytes, now->disk_bytes), new_cpu_ns(m, now));
	m->counted_cpu_ns = MAX(m->counted_cpu_ns, now->cpu_ns);
	m->memory_bytes = now->memory_bytes;
	m->disk_bytes = now->disk_bytes;
	m->has_reading = true;
}

/* The last reading of a run: all its processes are dead. */
static void read_last(struct meter *m, const struct guest_usage *last, uint64_t until_us)
{
	static const struct guest_usage unknown;
	const struct guest_usage *l = last ? last : &unknown;
	uint64_t disk_bytes = l->disk_bytes ? l->disk_bytes : m->disk_bytes;

	if (m->is_held) {
		charge(m, until_us, 0, m->disk_bytes, 0);
		return;
	}
	charge(m, until_us, m->has_reading ? m->memory_bytes : l->memory_peak_bytes,
	       mean(m->disk_bytes, disk_bytes), new_cpu_ns(m, l));
	m->counted_cpu_ns = MAX(m->counted_cpu_ns, l->cpu_ns);
	m->disk_bytes = disk_bytes;
	m->memory_bytes = 0;
}

void meter_set_memory_limit(struct meter *m, uint64_t bytes)
{
	charge(m, clock_steady_us(), m->memory_bytes, m->disk_bytes, 0);
	m->memory_limit_bytes = bytes;
}

void meter_count_exec(struct meter *m)
{
	count(m, &(struct usage){.of = {[USAGE_EXECS] = 1}});
}

void meter_count_calls(struct meter *m, uint64_t n)
{
	count(m, &(struct usage){.of = {[USAGE_CALLS] = n}});
}

void meter_count_network(struct meter *m, uint64_t in_bytes, uint64_t out_bytes)
{
	count(m, &(struct usage){.of = {[USAGE_NETWORK_IN_BYTES] = in_bytes,
	                                [USAGE_NETWORK_OUT_BYTES] = out_bytes}});
}

static void meter_free(struct meter *m)
{
	if (!m->is_closed)
		HASH_DEL(m->meters->by_id, m);
	list_remove(&m->dirty);
	free(m->slices);
	free(m);
}

static struct meter *meter_new(struct meters *ms, const char *sandbox_id, const char *project_id,
                               const char *key_id)
{
	struct meter *m = xnew0(struct meter);

	m->meters = ms;
	list_init(&m->dirty);
	(void)snprintf(m->sandbox_id, sizeof(m->sandbox_id), "%s", sandbox_id);
	(void)snprintf(m->project_id, sizeof(m->project_id), "%s", project_id);
	(void)snprintf(m->key_id, sizeof(m->key_id), "%s", key_id);
	HASH_ADD_STR(ms->by_id, sandbox_id, m);
	return m;
}

struct meter *meter_start(struct meters *ms, const struct meter_spec *spec)
{
	struct meter *m = meter_new(ms, spec->sandbox_id, spec->project_id, spec->key_id);

	m->memory_limit_bytes = spec->memory_limit_bytes;
	m->charged_to_us = spec->since_us;
	m->counted_cpu_ns = spec->base.cpu_ns;
	m->disk_bytes = spec->base.disk_bytes;
	count(m, &(struct usage){.of = {[USAGE_CREATES] = 1}});
	return m;
}

struct meter *meter_store(struct meters *ms, const struct meter_spec *spec, uint64_t disk_bytes)
{
	struct meter *m = meter_new(ms, spec->sandbox_id, spec->project_id, spec->key_id);

	m->charged_to_us = clock_steady_us();
	m->disk_bytes = disk_bytes;
	m->is_held = true;
	mark(m);
	return m;
}

void meter_set_disk(struct meter *m, uint64_t bytes)
{
	if (m->disk_bytes == bytes)
		return;
	charge(m, clock_steady_us(), 0, m->disk_bytes, 0);
	m->disk_bytes = bytes;
	mark(m);
}

struct meter *meter_find(struct meters *ms, const char *sandbox_id)
{
	struct meter *m = NULL;

	HASH_FIND_STR(ms->by_id, sandbox_id, m);
	return m;
}

static int write_meter(struct meter *m, struct err *err)
{
	struct store_usage *store = m->meters->store;
	const struct meter_row row = {
		.sandbox_id = m->sandbox_id,
		.project_id = m->project_id,
		.key_id = m->key_id,
		.boot_id = m->meters->boot_id,
		.charged_to_us = m->charged_to_us,
		.is_held = m->is_held,
		.memory_limit_bytes = m->memory_limit_bytes,
		.counted_cpu_ns = m->counted_cpu_ns,
		.memory_bytes = m->memory_bytes,
		.disk_bytes = m->disk_bytes,
		.total = m->total,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n_slices; i++)
		r = store_usage_add(store,
		                    &(struct usage_row){.project_id = m->project_id,
		                                        .sandbox_id = m->sandbox_id,
		                                        .key_id = m->key_id,
		                                        .day = m->slices[i].day,
		                                        .usage = m->slices[i].usage},
		                    err);
	if (r < 0)
		return r;
	return m->is_closed ? store_usage_delete_meter(store, m->sandbox_id, err)
	                    : store_usage_put_meter(store, &row, err);
}

static void settle(struct meter *m)
{
	m->n_slices = 0;
	list_remove(&m->dirty);
	if (m->is_closed)
		meter_free(m);
}

static int write_dirty(struct meters *ms, bool is_synced, struct err *err)
{
	int r = store_usage_begin(ms->store, is_synced, err);

	if (r < 0)
		return r;
	for (struct list *l = ms->dirty.next; r == 0 && l != &ms->dirty; l = l->next)
		r = write_meter(list_entry(l, struct meter, dirty), err);
	return store_usage_end(ms->store, r, err);
}

int meters_write(struct meters *ms, bool is_synced, struct err *err)
{
	struct err why;
	struct meter *m;
	int r;

	is_synced = is_synced && ms->is_unsynced;
	if (list_empty(&ms->dirty) && !is_synced)
		return 0;
	r = write_dirty(ms, is_synced, &why);
	if (r < 0) {
		if (!ms->has_failed)
			log_error("usage.not_written", "error='%s'", why.message);
		ms->has_failed = true;
		if (err)
			*err = why;
		return r;
	}
	ms->has_failed = false;
	ms->is_unsynced = ms->is_unsynced && !is_synced;
	while ((m = list_first(&ms->dirty, struct meter, dirty)))
		settle(m);
	return 0;
}

void meter_hold(struct meter *m, const struct guest_usage *last, uint64_t until_us)
{
	if (m->is_held)
		return;
	read_last(m, last, until_us);
	m->is_held = true;
	m->counted_cpu_ns = 0; /* of the cgroup that comes next */
	/* Written at once: the counters of one run must not be taken for the next one's. */
	(void)!meters_write(m->meters, /* is_synced= */ false, NULL);
}

void meter_tick(struct meter *m)
{
	if (m->is_held)
		charge(m, clock_steady_us(), 0, m->disk_bytes, 0);
}

void meter_resume(struct meter *m, uint64_t memory_limit_bytes)
{
	if (!m->is_held)
		return;
	charge(m, clock_steady_us(), 0, m->disk_bytes, 0);
	m->is_held = m->has_reading = false;
	m->memory_limit_bytes = memory_limit_bytes;
	(void)!meters_write(m->meters, /* is_synced= */ false, NULL);
}

void meter_close(struct meter *m, const struct guest_usage *last, uint64_t until_us)
{
	struct meters *ms = m->meters;

	assert(!m->is_closed);
	read_last(m, last, until_us);
	HASH_DEL(ms->by_id, m);
	m->is_closed = true;
	mark(m);
	(void)!meters_write(ms, /* is_synced= */ false, NULL);
}

static int take_up(const struct meter_row *row, void *arg)
{
	struct meters *ms = arg;
	struct meter *m = meter_new(ms, row->sandbox_id, row->project_id, row->key_id);
	bool is_same_boot = strcmp(row->boot_id, ms->boot_id) == 0;

	m->memory_limit_bytes = row->memory_limit_bytes;
	/* Another boot had another steady clock, and the time in between is not charged. */
	m->charged_to_us = is_same_boot ? row->charged_to_us : clock_steady_us();
	m->is_held = row->is_held;
	m->counted_cpu_ns = row->counted_cpu_ns;
	m->memory_bytes = row->memory_bytes;
	m->disk_bytes = row->disk_bytes;
	m->has_reading = row->memory_bytes > 0;
	m->total = row->total;
	return 0;
}

int meters_open(struct store *store, const char *boot_id, struct meters **ret, struct err *err)
{
	auto_call(meters_closep) struct meters *ms = xnew0(struct meters);
	int r;

	list_init(&ms->dirty);
	(void)snprintf(ms->boot_id, sizeof(ms->boot_id), "%s", boot_id);
	r = store_usage_open(store, &ms->store, err);
	if (r == 0)
		r = store_usage_each_meter(ms->store, take_up, ms, err);
	if (r < 0)
		return r;
	*ret = take_ptr(ms);
	return 0;
}

void meters_close(struct meters *ms)
{
	struct meter *m;

	if (!ms)
		return;
	if (ms->store)
		(void)!meters_write(ms, /* is_synced= */ true, NULL);
	while ((m = list_first(&ms->dirty, struct meter, dirty)))
		meter_free(m);
	while (ms->by_id)
		meter_free(ms->by_id);
	store_usage_close(ms->store);
	free(ms);
}

void meters_on_use(struct meters *ms, meters_fn used, void *arg)
{
	ms->used = used;
	ms->used_arg = arg;
}

struct store_usage *meters_store(struct meters *ms)
{
	return ms->store;
}

void meters_each(struct meters *ms, void (*fn)(struct meter *m, void *arg), void *arg)
{
	struct meter *next;

	for (struct meter *m = ms->by_id; m; m = next) {
		next = m->hh.next; /* fn may close it */
		fn(m, arg);
	}
}

const char *meter_sandbox_id(const struct meter *m)
{
	return m->sandbox_id;
}

const struct usage *meter_total(const struct meter *m)
{
	return &m->total;
}
