// SPDX-License-Identifier: Apache-2.0
/* A fleet as a whole: opening and closing, its figures, and its end. The registry is in model/. */
#include "sandbox/fleet/fleet.h"

#include "base/fd.h"
#include "base/log.h"
#include "node/node.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/fleet/fleet_private.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/lifecycle/restorable.h"
#include "sandbox/lifecycle/results.h"
#include "sandbox/model/owner.h"
#include "sandbox/model/registry.h"
#include "sandbox/pool/pool.h"
#include "sandbox/pool/warm_copy.h"
#include "sandbox/pool/warm_up.h"
#include "sandbox/snapshot/snapshots.h"
#include "sandbox/storage/storage.h"
#include "sandbox/usage/account.h"
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

static void on_broker_lost(void *arg)
{
	fleet_give_up(arg);
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

static const struct lifecycle_ops lifecycle_ops = {
	.save = sandbox_save,
	.next = life_next,
	.fail_create = create_fail,
	.undo_create = create_undo,
	.end = sandbox_end,
	.retain = retention_add,
};

static const struct spare_ops spare_ops = {
	.look = pool_look,
	.offer = pool_offer,
	.take = pool_take,
	.share = pool_share,
	.is_short = pool_is_short,
	.on_up = pool_on_up,
	.on_warm = pool_on_warm,
	.on_failed = pool_on_failed,
	.on_gone = pool_on_gone,
	.end_warm_up = warm_up_end,
	.start_from_copy = warm_copy_apply,
	.is_created_anew = warm_copy_on_failed,
	.on_booted = warm_copy_want,
	.drop_copies = warm_copy_drop_image,
	.count_copies = warm_copy_count_image,
	.settle_copies = warm_copy_settle,
};

static const struct stored_kind stored_kinds[] = {
	{"sn", snapshots_tick, snapshot_is_known, snapshot_count_image},
	{"vo", volumes_tick, volume_is_known, NULL},
	{"res", results_tick, results_are_known, NULL},
	{0},
};

DEFINE_FREEP(struct fleet, fleet_free)

int fleet_new(const struct fleet_config *config, loop_fn ready, void *arg, struct fleet **ret,
              struct err *err)
{
	auto_call(fleet_freep) struct fleet *fleet = xnew0(struct fleet);
	int r;

	fleet->config = *config;
	fleet->lifecycle = &lifecycle_ops;
	fleet->spares = &spare_ops;
	fleet->stored = stored_kinds;
	fleet->on_rejoined = adoption_on_rejoined;
	list_init(&fleet->all);
	list_init(&fleet->ended);
	list_init(&fleet->templates);
	list_init(&fleet->snapshots);
	list_init(&fleet->snapshot_removals);
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
	/* Without the boot id every start counts as a reboot, which only changes the name of a
	 * cause.
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
	fleet->creates = create_queue_new(&(struct create_queue_config){.loop = config->loop,
	                                                                .shares = config->shares,
	                                                                .has_room = create_has_room,
	                                                                .arg = fleet});
	r = pool_new(fleet, &fleet->pool, err);
	if (r < 0)
		return r;
	image_open_all(fleet);
	shared_templates_open(fleet);
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
	create_queue_free(take_ptr(fleet->creates));
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
	shared_templates_close(fleet);
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

struct create_queue *fleet_creates(const struct fleet *fleet)
{
	return fleet->creates;
}

const struct fleet_config *fleet_config(const struct fleet *fleet)
{
	return &fleet->config;
}

const struct msg_reply *fleet_host(const struct fleet *fleet)
{
	return &fleet->probe;
}

static void on_pinged(const struct msg_reply *reply, void *arg)
{
	struct fleet *fleet = arg;

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

static bool has_sandbox(const char *id, void *arg)
{
	const struct sandbox *s = fleet_find_id(arg, id);

	/* Nothing but a key is a batch's. */
	return s ? s->place != PLACE_ENDED : id_is_valid(id, "bt") && idempotency_has(arg, id);
}

static void each_named(void (*fn)(const char *project_id, const char *id, const char *name,
                                  void *fn_arg),
                       void *fn_arg, void *arg)
{
	const struct fleet *fleet = arg;

	list_for_each (&fleet->all, struct sandbox, s, link_all)
		if (s->place != PLACE_ENDED && s->name[0])
			fn(s->project_id, s->id, s->name, fn_arg);
}

static size_t end_all(const char *why, void *arg)
{
	const struct fleet *fleet = arg;
	size_t n = 0;

	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		if (s->place == PLACE_ENDED || s->state == SANDBOX_STOPPING)
			continue;
		n += s->place == PLACE_ALIVE;
		fleet->lifecycle->end(s, END_NODE_LOST, NULL, why);
	}
	return n;
}

void fleet_share_names(struct fleet *fleet)
{
	static const struct node_sandboxes sandboxes = {has_sandbox, each_named, end_all};

	node_has_sandboxes(fleet->config.node, &sandboxes, fleet);
	directory_rows_open(fleet);
	restorables_open(fleet);
}
