// SPDX-License-Identifier: Apache-2.0
/*
 * The registry: by id, by project and name, and in order of creation. The living hold their names,
 * and so do persistent ones that do not run; any other gives its name back when it ends and stays
 * findable by id, with its execs and their output, for a while (ended_retention.c).
 */
#include "sandbox/fleet.h"

#include "base/fd.h"
#include "base/log.h"
#include "sandbox/account.h"
#include "sandbox/pool.h"
#include "wall/client.h"

#include <fcntl.h>
#include <inttypes.h>

static void on_guest_ended(const struct msg_reply *reply, void *arg)
{
	struct fleet *fleet = arg;
	struct sandbox *s = fleet_find_id(fleet, reply->id);

	if (!s)
		s = pool_find(fleet->pool, reply->id);
	if (s)
		sandbox_on_guest_ended(s, reply);
}

void fleet_on_disk(const struct host_disk *disk, void *arg)
{
	struct fleet *fleet = arg;
	bool is_moved = disk->state != fleet->disk.state;
	struct event e;
	struct json_writer *w;

	fleet->disk = *disk;
	if (!is_moved)
		return;
	log_warn("host.disk", "state=%s free_bytes=%" PRIu64, disk_state_name(disk->state),
	         disk->free_bytes);
	pool_look(fleet->pool);
	if (!fleet->config.events)
		return;
	w = event_begin(&e, fleet->config.events, EVENT_HOST_DISK, NULL, NULL);
	json_put_str(w, "state", disk_state_name(disk->state));
	json_put_u64(w, "free_mib", disk->free_bytes >> 20);
	json_put_u64(w, "reserve_mib", disk->reserve_bytes >> 20);
	json_put_u64(w, "layers_mib", disk->layers_bytes >> 20);
	json_put_u64(w, "layers_free_mib", disk->layers_free_bytes >> 20);
	event_end(&e);
}

const struct host_disk *fleet_disk(const struct fleet *fleet)
{
	return &fleet->disk;
}

int fleet_check_disk(const struct fleet *fleet, struct err *err)
{
	return host_disk_check(&fleet->disk, err);
}

static void on_broker_lost(void *arg)
{
	fleet_give_up(arg);
}

void fleet_check_keeper(const struct fleet *fleet, const char *file, uint64_t keeper)
{
	uint64_t us = store_number(fleet->config.store);

	if (keeper != us)
		log_warn("keeper.damaged", "file='%s' hint='write %" PRIu64 " into it'", file, us);
}

void fleet_give_up(struct fleet *fleet)
{
	if (fleet->config.broker_lost)
		fleet->config.broker_lost(fleet->config.loop, fleet->config.broker_lost_arg);
	else
		loop_stop(fleet->config.loop);
}

static const struct broker_client_ops broker_client_ops = {
	.on_ended = on_guest_ended,
	.on_disk = fleet_on_disk,
	.on_lost = on_broker_lost,
};

DEFINE_FREEP(struct fleet, fleet_free)

int fleet_new(const struct fleet_config *config, loop_fn ready, void *arg, struct fleet **ret,
              struct err *err)
{
	auto_call(fleet_freep) struct fleet *fleet = xnew0(struct fleet);
	int r;

	fleet->config = *config;
	list_init(&fleet->all);
	list_init(&fleet->ended);
	list_init(&fleet->templates);
	list_init(&fleet->snapshots);
	list_init(&fleet->volumes);
	list_init(&fleet->takings);
	list_init(&fleet->holds);
	owner_open(fleet);
	fleet->spool_fd = open(config->spool_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fleet->spool_fd < 0) {
		r = err_set(err, ERR_INTERNAL, errno, "cannot open the spool directory '%s'",
		            config->spool_dir);
		(void)close(config->broker_fd);
		return r;
	}
	/* Without it every start counts as one of the machine, which only changes a cause's name.
	 */
	if (config->boot_id)
		(void)snprintf(fleet->boot_id, sizeof(fleet->boot_id), "%s", config->boot_id);
	else if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", fleet->boot_id,
	                      sizeof(fleet->boot_id)) < 0)
		fleet->boot_id[0] = '\0';
	r = broker_client_new(config->loop, config->broker_fd, config->vm_boot_ms * 1000,
	                      &broker_client_ops, fleet, &fleet->broker, err);
	if (r < 0)
		return r;
	durable_open(fleet);
	retention_init(fleet);
	account_open(fleet);
	r = pool_new(fleet, &fleet->pool, err);
	if (r < 0)
		return r;
	image_open_all(fleet);
	r = templates_open(fleet, err);
	if (r == 0)
		r = snapshots_open(fleet, err);
	if (r == 0)
		r = volumes_open(fleet, err);
	if (r == 0)
		r = idempotency_open(fleet, err);
	if (r == 0 && config->backup_dir)
		r = backups_open(fleet, err);
	if (r == 0 && config->crash_counters_path)
		r = crash_counters_open(config->crash_counters_path, store_is_new(config->store),
		                        &fleet->crash_counters, err);
	if (r == 0)
		r = adoption_start(fleet, ready, arg, err);
	if (r < 0)
		return r;
	*ret = take_ptr(fleet);
	return 0;
}

static void free_fleet(struct loop *loop, void *arg)
{
	(void)loop;
	kept_close(arg);
	free(arg);
}

void fleet_free(struct fleet *fleet)
{
	if (!fleet)
		return;
	adoption_free(fleet);
	account_close(fleet);
	retention_done(fleet);
	idempotency_close(fleet);
	durable_close(fleet);
	pool_free(fleet->pool);
	owner_close(fleet);
	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		fleet_detach(fleet, s);
		sandbox_free(s);
	}
	backups_close(fleet);
	snapshot_takings_close(fleet);
	snapshot_holds_close(fleet);
	snapshots_close(fleet);
	volumes_close(fleet);
	templates_close(fleet);
	image_close_all(fleet);
	broker_client_free(fleet->broker);
	if (fleet->spool_fd >= 0)
		(void)close(fleet->spool_fd);
	crash_counters_close(fleet->crash_counters);
	loop_defer(fleet->config.loop, free_fleet, fleet); /* this turn may have calls for it */
}

struct loop_stats fleet_broker_turns(const struct fleet *fleet)
{
	return fleet->broker_turns;
}

bool fleet_is_ready(const struct fleet *fleet)
{
	return fleet->is_ready;
}

const struct fleet_config *fleet_config(const struct fleet *fleet)
{
	return &fleet->config;
}

const struct msg_reply *fleet_host(const struct fleet *fleet)
{
	return &fleet->probe;
}

static void on_pinged(const struct msg_reply *reply, int fd, void *arg)
{
	struct fleet *fleet = arg;

	if (fd >= 0)
		(void)close(fd);
	if (reply->err.code == ERR_NONE)
		fleet->probe = *reply;
}

void fleet_ping(struct fleet *fleet)
{
	broker_client_ping(fleet->broker, on_pinged, fleet);
	if (fleet->config.wall)
		wall_client_ping(fleet->config.wall);
}

uint64_t fleet_broker_silent_us(const struct fleet *fleet)
{
	return broker_client_silent_us(fleet->broker);
}

uint64_t fleet_wall_silent_us(const struct fleet *fleet)
{
	return fleet->config.wall ? wall_client_silent_us(fleet->config.wall) : 0;
}

const struct fleet_counts *fleet_counts(const struct fleet *fleet)
{
	return &fleet->counts;
}

void fleet_count_states(const struct fleet *fleet, size_t ret[SANDBOX_STATE_COUNT])
{
	memset(ret, 0, SANDBOX_STATE_COUNT * sizeof(*ret));
	list_for_each (&fleet->all, const struct sandbox, s, link_all)
		ret[s->state]++;
}

size_t fleet_count(const struct fleet *fleet)
{
	return fleet->n_alive;
}

struct sandbox *fleet_find_id(struct fleet *fleet, const char *id)
{
	struct sandbox *s = NULL;

	HASH_FIND(by_id, fleet->by_id, id, strlen(id), s);
	return s;
}

struct sandbox *sandbox_find_name(struct fleet *fleet, const char *project_id, const char *name)
{
	char key[ID_SIZE + 1 + SANDBOX_NAME_MAX + 1];
	int len = snprintf(key, sizeof(key), "%s/%s", project_id, name);
	struct sandbox *s = NULL;

	if (len < (int)sizeof(key)) /* a longer one is nobody's */
		HASH_FIND(by_name, fleet->by_name, key, (size_t)len, s);
	return s;
}

bool fleet_has_name(struct fleet *fleet, const char *project_id, const char *name)
{
	return sandbox_find_name(fleet, project_id, name) != NULL;
}

struct sandbox *sandbox_find(struct fleet *fleet, const char *project_id, const char *id_or_name)
{
	struct sandbox *s = fleet_find_id(fleet, id_or_name);

	if (s && strcmp(s->project_id, project_id) == 0)
		return s;
	return sandbox_find_name(fleet, project_id, id_or_name);
}

struct sandbox *sandbox_find_shown(struct fleet *fleet, const char *id,
                                   bool (*says_yes)(const struct sandbox *s, void *arg), void *arg)
{
	struct sandbox *one = id ? fleet_find_id(fleet, id) : NULL;

	if (id)
		return one && !one->spare && says_yes(one, arg) ? one : NULL;
	list_for_each (&fleet->all, struct sandbox, s, link_all)
		if (!s->spare && says_yes(s, arg))
			return s;
	return NULL;
}

static void count(struct fleet *fleet, const struct sandbox *s, size_t by)
{
	switch (s->place) {
	case PLACE_NONE:
		return;
	case PLACE_ALIVE:
		fleet->n_alive += by;
		break;
	case PLACE_KEPT:
		break;
	case PLACE_ENDED:
		fleet->n_ended += by;
		return;
	}
	fleet->n_persistent += s->is_persistent ? by : 0;
}

/* The room for spares may change with it: whoever calls this lets the pool look, unless it goes. */
static void set_place(struct fleet *fleet, struct sandbox *s, enum fleet_place place)
{
	if (s->place == PLACE_ENDED)
		retention_remove(s);
	count(fleet, s, (size_t)-1);
	list_remove(&s->link_ended);
	s->place = place;
	count(fleet, s, 1);
	if (place != PLACE_ENDED)
		return;
	list_append(&fleet->ended, &s->link_ended);
	retention_add(s);
}

static void drop_name(struct fleet *fleet, struct sandbox *s)
{
	if (!s->name_key)
		return;
	HASH_DELETE(by_name, fleet->by_name, s);
	free(take_ptr(s->name_key));
}

static void take_name(struct fleet *fleet, struct sandbox *s)
{
	if (s->name[0] == '\0')
		return;
	s->name_key = xasprintf("%s/%s", s->project_id, s->name);
	HASH_ADD_KEYPTR(by_name, fleet->by_name, s->name_key, strlen(s->name_key), s);
}

void fleet_attach(struct fleet *fleet, struct sandbox *s)
{
	list_append(&fleet->all, &s->link_all);
	HASH_ADD_KEYPTR(by_id, fleet->by_id, s->id, strlen(s->id), s);
	if (s->state == SANDBOX_PAUSED && s->paused_in[0])
		set_place(fleet, s, PLACE_KEPT);
	else if (sandbox_is_alive(s))
		set_place(fleet, s, PLACE_ALIVE);
	else
		set_place(fleet, s, s->is_kept ? PLACE_KEPT : PLACE_ENDED);
	if (s->place != PLACE_ENDED)
		take_name(fleet, s);
	pool_look(fleet->pool);
}

void fleet_detach(struct fleet *fleet, struct sandbox *s)
{
	drop_name(fleet, s);
	set_place(fleet, s, PLACE_NONE);
	list_remove(&s->link_all);
	HASH_DELETE(by_id, fleet->by_id, s);
}

void fleet_on_ended(struct fleet *fleet, struct sandbox *s)
{
	pool_look(fleet->pool);
	if (s->is_kept) {
		set_place(fleet, s, PLACE_KEPT);
		return;
	}
	drop_name(fleet, s);
	set_place(fleet, s, PLACE_ENDED);
}

void fleet_on_rested(struct fleet *fleet, struct sandbox *s)
{
	set_place(fleet, s, PLACE_KEPT);
	pool_look(fleet->pool);
}

void fleet_on_revived(struct fleet *fleet, struct sandbox *s)
{
	set_place(fleet, s, PLACE_ALIVE);
	pool_look(fleet->pool);
}

void fleet_rename(struct fleet *fleet, struct sandbox *s, const char *name)
{
	char *old = s->name;

	drop_name(fleet, s);
	s->name = xstrdup(name);
	free(old);
	take_name(fleet, s);
}

static bool matches(const struct sandbox *s, const struct sandbox_filter *f)
{
	const char *value;

	if (strcmp(s->project_id, f->project_id) != 0)
		return false;
	if (f->state ? strcmp(f->state, sandbox_state_name(s->state)) != 0
	             : s->place == PLACE_ENDED)
		return false;
	if (!f->tag_name)
		return true;
	value = json_string_value(json_object_get(s->tags, f->tag_name));
	return value && (!f->tag_value || strcmp(value, f->tag_value) == 0);
}

size_t fleet_list(struct fleet *fleet, const struct sandbox_filter *filter,
                  void (*fn)(struct sandbox *s, void *arg), void *arg, bool *ret_more)
{
	/* A cursor whose sandbox is forgotten begins anew: to see one twice is better than to miss
	 * one. */
	struct sandbox *after = filter->after_id ? fleet_find_id(fleet, filter->after_id) : NULL;
	struct list *at = after ? after->link_all.prev : fleet->all.prev;
	size_t n = 0;

	*ret_more = false;
	for (; at != &fleet->all; at = at->prev) {
		struct sandbox *s = list_entry(at, struct sandbox, link_all);

		if (!matches(s, filter))
			continue;
		if (n == filter->limit) {
			*ret_more = true;
			break;
		}
		fn(s, arg);
		n++;
	}
	return n;
}

static void tell_drained(struct loop *loop, void *arg)
{
	struct fleet *fleet = arg;

	fleet->drained(loop, fleet->drained_arg);
}

static void on_pool_drained(struct loop *loop, void *arg)
{
	struct fleet *fleet = arg;

	if (--fleet->n_draining == 0)
		tell_drained(loop, fleet);
}

static void on_drained(struct sandbox *s, const struct err *err, void *arg)
{
	struct fleet *fleet = arg;

	(void)s;
	(void)err;
	if (--fleet->n_draining == 0)
		tell_drained(fleet->config.loop, fleet);
}

void fleet_delete_all(struct fleet *fleet, loop_fn done, void *arg)
{
	fleet->is_draining = true;
	fleet->drained = done;
	fleet->drained_arg = arg;
	fleet->n_draining = 1;
	pool_close(fleet->pool, on_pool_drained, fleet);
	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		if (!sandbox_is_alive(s))
			continue;
		fleet->n_draining++;
		if (!s->is_kept)
			sandbox_delete(s, END_DELETED, on_drained, fleet);
		else if (sandbox_stop(s, on_drained, fleet, NULL) < 0)
			fleet->n_draining--;
	}
}

void fleet_close_pool(struct fleet *fleet, loop_fn done, void *arg)
{
	fleet->is_draining = true;
	pool_close(fleet->pool, done, arg);
}

void fleet_pool(const struct fleet *fleet, struct pool_figures *ret)
{
	pool_figures(fleet->pool, ret);
}
