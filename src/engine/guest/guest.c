// SPDX-License-Identifier: Apache-2.0
#include "engine/guest/guest.h"

#include "base/log.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/guest_kind.h"
#include "engine/guest/guest_record.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#define WALLS_ALWAYS                                                                               \
	(BIT(WALL_USER_NS) | BIT(WALL_PID_NS) | BIT(WALL_MOUNT_NS) | BIT(WALL_NET_NS) |            \
	 BIT(WALL_IPC_NS) | BIT(WALL_UTS_NS) | BIT(WALL_CGROUP_NS) | BIT(WALL_UID_RANGE) |         \
	 BIT(WALL_PIVOT_ROOT) | BIT(WALL_CAPABILITIES) | BIT(WALL_NO_NEW_PRIVS) |                  \
	 BIT(WALL_SECCOMP) | BIT(WALL_MASKED_PROC) | BIT(WALL_NET_LINKLESS))

/* clang-format off */
static const struct {
	const char *name;
	unsigned next;   /* states */
	unsigned events; /* that may arrive */
} states[] = {
	[GUEST_WAITING] = {"waiting", BIT(GUEST_STARTING) | BIT(GUEST_DYING), 0},
	[GUEST_STARTING] = {"starting", BIT(GUEST_RUNNING) | BIT(GUEST_DYING),
	                    BIT(GUEST_EXIT) | BIT(GUEST_STATUS) | BIT(GUEST_TIMER) | BIT(GUEST_WORKER)},
	[GUEST_RUNNING] = {"running", BIT(GUEST_ENDED) | BIT(GUEST_DYING), BIT(GUEST_EXIT)},
	[GUEST_ENDED] = {"ended", BIT(GUEST_DYING), 0},
	[GUEST_DYING] = {"dying", BIT(GUEST_GROUPS), BIT(GUEST_EXIT) | BIT(GUEST_TIMER) | BIT(GUEST_WORKER)},
	[GUEST_GROUPS] = {"groups", BIT(GUEST_LAYER), BIT(GUEST_TIMER)},
	[GUEST_LAYER] = {"layer", BIT(GUEST_DIRECTORY), BIT(GUEST_TIMER) | BIT(GUEST_WORKER)},
	[GUEST_DIRECTORY] = {"directory", BIT(GUEST_GONE) | BIT(GUEST_STARTING) | BIT(GUEST_LAYER),
	                     BIT(GUEST_TIMER)},
	[GUEST_GONE] = {"gone", 0, 0},
	[GUEST_FOREIGN] = {"foreign", 0, 0},
};
/* clang-format on */
static_assert(ARRAY_SIZE(states) == GUEST_STATE_COUNT, "a state has no row");

bool guest_expects(const struct guest *g, enum guest_event event)
{
	static const char *const names[] = {[GUEST_EXIT] = "exit",
	                                    [GUEST_STATUS] = "status",
	                                    [GUEST_TIMER] = "timer",
	                                    [GUEST_WORKER] = "worker"};

	if (states[g->state].events & BIT(event))
		return true;
	log_error("jail.unexpected", "id=%s state=%s about=%s", g->spec.id, states[g->state].name,
	          names[event]);
	return false;
}

void guest_move(struct guest *g, enum guest_state next)
{
	assert(states[g->state].next & BIT(next));
	loop_timer_set(g->timer, UINT64_MAX);
	g->on_time = NULL;
	g->state = next;
}

bool guest_is_removing(const struct guest *g)
{
	return g->state >= GUEST_DYING && g->state <= GUEST_GONE;
}

static void on_timer(struct loop *loop, void *arg)
{
	struct guest *g = arg;
	void (*on_time)(struct guest * g) = take_ptr(g->on_time);

	(void)loop;
	if (guest_expects(g, GUEST_TIMER) && on_time)
		on_time(g);
}

void guest_arm(struct guest *g, uint64_t in_us, void (*on_time)(struct guest *g))
{
	g->on_time = on_time;
	loop_timer_set_in(g->timer, in_us);
}

bool guest_take_worker(struct guest *g)
{
	g->worker = NULL;
	if (!guest_expects(g, GUEST_WORKER))
		return false;
	if (g->state != GUEST_DYING)
		return true;
	guest_proceed_removal(g);
	return false;
}

/* If only the name of a guest is known, it is of the first kind. */
const struct guest_kind *guest_kind_of(uint32_t engine)
{
	const struct engine *e = engine_find(engine);

	return e && e->kind ? e->kind : engines[0]->kind;
}

struct guest *guest_new(struct guest_host *host, const struct guest_spec *spec,
                        enum guest_state state)
{
	struct guest *g = xnew0(struct guest);

	g->host = host;
	g->kind = guest_kind_of(spec->engine);
	g->spec = *spec;
	g->state = state;
	g->status_fd = g->dir_fd = g->machine_view_fd = -1;
	g->retry_us = GUEST_RETRY_US;
	g->cpu_weight = state == GUEST_RUNNING ? 0 : WEIGH_USUAL; /* one is adopted, or new */
	g->timer = loop_timer_new(host->loop, on_timer, g);
	list_append(&host->guests, &g->link);
	if (g->kind->init)
		g->kind->init(g);
	return g;
}

void guest_free(struct loop *loop, void *arg)
{
	struct guest *g = arg;

	(void)loop;
	weigh_leave(&g->host->weigh, g);
	loop_timer_free(g->timer);
	guest_drop_start(g);
	if (g->kind->free)
		g->kind->free(g);
	close_fd(&g->status_fd);
	close_fd(&g->dir_fd);
	close_fd(&g->machine_view_fd);
	free(g);
}

int guest_adopt(struct guest_host *host, const char *id, guest_ended_fn ended, void *arg,
                struct guest **ret, struct guest_spec *ret_spec, struct err *err)
{
	auto_fd int dir_fd = -1, pidfd = -1;
	struct guest_record record;
	struct guest *g;
	int r;

	if (!id_is_valid(id, "sb"))
		return err_set(err, ERR_BAD_REQUEST, EINVAL, "not a sandbox's id");
	dir_fd = openat(host->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = dir_fd < 0 ? -errno : guest_record_read(dir_fd, id, &record);
	if (r == 0)
		r = guest_record_open_process(&record, &pidfd);
	if (r == -EPROTONOSUPPORT) {
		struct guest_spec spec = {0};

		/* The guest may be alive: leave() must not unmount the layers below it. */
		(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
		(void)guest_new(host, &spec, GUEST_FOREIGN);
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "the record of '%s' has version %u, this cloche knows %d to %d", id,
		              record.version, GUEST_RECORD_OLDEST, GUEST_RECORD_VERSION);
		return r;
	}
	if (r < 0) {
		guest_remove_found(host, id);
		if (r == -EPROTO)
			return err_set(
				err, ERR_INTERNAL, EPROTO,
				"its record 'sandboxes/%s/record' is damaged, so it is ended", id);
		return err_set(err, ERR_GONE, ESRCH, "'%s' is dead", id);
	}
	g = guest_new(host, &record.spec, GUEST_RUNNING);
	r = loop_child_add(host->loop, pidfd, guest_on_exit, g, &g->child);
	if (r < 0) {
		list_remove(&g->link);
		guest_free(host->loop, g);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch '%s'", id);
	}
	(void)take_fd(&pidfd);
	g->pid = record.pid;
	spawner_find(&host->spawner, g->pid);
	g->dir_fd = take_fd(&dir_fd);
	disk_snapshot_adopt(g);
	g->ended = ended;
	g->arg = arg;
	*ret = g;
	*ret_spec = record.spec;
	return 0;
}

int guest_read_usage(struct guest *g, struct guest_usage *ret, struct err *err)
{
	(void)err;
	*ret = (struct guest_usage){0};
	cgroup_usage(&g->host->cgroups, g->spec.id, ret);
	disk_snapshot_usage(g->host, g->spec.id, ret);
	return 0;
}

int guest_connect(struct guest *g, int *ret_fd, struct err *err)
{
	const struct sockaddr_un addr = guest_agent_address(g);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	if (fd < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a socket");
	r = connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	if (r == -ECONNREFUSED && g->kind->recover && g->kind->recover(g, err) == 0)
		r = connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r, "cannot connect to the agent");
	*ret_fd = take_fd(&fd);
	return 0;
}

void guest_read_shortage(struct guest *g, struct guest_shortage *ret)
{
	cgroup_shortage(&g->host->cgroups, g->spec.id, ret);
}

int guest_freeze(struct guest *g, bool on, struct err *err)
{
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	return disk_snapshot_freeze(g, on, err);
}

struct isolation guest_isolation(struct guest_host *host)
{
	static const struct {
		enum cgroup_part part;
		enum wall wall;
	} limits[] = {{CGROUP_MEMORY, WALL_MEMORY_LIMIT},
	              {CGROUP_CPU, WALL_CPU_LIMIT},
	              {CGROUP_PIDS, WALL_PIDS_LIMIT}};
	const unsigned disk = BIT(WALL_DISK_LIMIT) | BIT(WALL_INODE_LIMIT);
	struct isolation ret = {.walls = WALLS_ALWAYS};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		*(host->cgroups.parts & BIT(limits[i].part) ? &ret.walls : &ret.gaps) |=
			BIT(limits[i].wall);
	*(host->storage.is_btrfs ? &ret.walls : &ret.gaps) |= disk;
	if (!host->storage.is_btrfs)
		ret.gaps |= BIT(WALL_MEMORY_SNAPSHOTS);
	return ret;
}
