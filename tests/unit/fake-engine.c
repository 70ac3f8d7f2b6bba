// SPDX-License-Identifier: Apache-2.0
#include "fake-engine.h"

#include "base/id.h"
#include "base/list.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct guest_host {
	char nothing;
};

struct guest {
	struct list link;
	char id[ID_SIZE];
	guest_started_fn started;
	guest_ended_fn ended;
	void *arg;
	guest_gone_fn gone;
	void *gone_arg;
};

struct fake_state fake;
static struct loop *fake_loop;
static struct engine_host fake_host;
static struct list guests = LIST_INIT(guests);

void fake_reset(void)
{
	fake_free();
	fake = (struct fake_state){0};
}

static void drop(struct guest *g)
{
	list_remove(&g->link);
	free(g);
	fake.n_alive--;
}

void fake_free(void)
{
	struct guest *g;

	while ((g = list_first(&guests, struct guest, link)))
		drop(g);
}

static struct guest *guest_new(const char *id)
{
	struct guest *g = xnew0(struct guest);

	(void)snprintf(g->id, sizeof(g->id), "%s", id);
	list_append(&guests, &g->link);
	fake.n_alive++;
	return g;
}

static int fake_probe(const struct engine_host *given, struct guest_host **ret, struct err *err)
{
	static struct guest_host host;

	(void)err;
	fake_loop = given->loop;
	fake_host = *given;
	*ret = &host;
	return 0;
}

/* Nobody is there any more to be answered. */
struct forking {
	guest_forked_fn forked;
	void *arg;
};

static void tell_forked(struct loop *loop, void *arg)
{
	struct forking *f = arg;
	struct err err;

	(void)loop;
	(void)err_set(&err, ERR_UNAVAILABLE, 0, "told to fail");
	f->forked(fake.fails_fork ? &err : NULL, f->arg);
	free(f);
}

static struct forking *held_fork;

static void fake_leave(struct guest_host *host)
{
	(void)host;
	fake.has_left = true;
	if (held_fork)
		tell_forked(NULL, take_ptr(held_fork));
	for (struct list *l = guests.next; l != &guests; l = l->next) {
		list_entry(l, struct guest, link)->started = NULL;
		list_entry(l, struct guest, link)->gone = NULL;
	}
}

static struct isolation fake_isolation(struct guest_host *host, const struct guest *g)
{
	(void)host;
	(void)g;
	return (struct isolation){.engine = 1, .grade = GRADE_PROCESS, .walls = BIT(WALL_USER_NS)};
}

/* Answers all that may be answered. A guest's callbacks may free it or start others. */
static void answer(struct loop *loop, void *arg)
{
	struct list *next;

	(void)loop;
	(void)arg;
	for (struct list *l = guests.next; l != &guests; l = next) {
		struct guest *g = list_entry(l, struct guest, link);
		guest_started_fn started = g->started;
		guest_gone_fn gone = g->gone;
		void *gone_arg = g->gone_arg;

		next = l->next;
		if (started && !fake.holds_starts) {
			struct err err;
			void *started_arg = g->arg;

			g->started = NULL;
			if (fake.fails_started) {
				(void)err_set(&err, ERR_GUEST, 0, "the agent did not come up");
				drop(g);
				started(NULL, &err, started_arg);
			} else {
				started(g, NULL, started_arg);
			}
		} else if (gone && !fake.holds_kills) {
			fake_host.final(g->id, &(struct guest_usage){.cpu_ns = 9},
			                fake_host.final_arg);
			drop(g);
			gone(gone_arg);
		}
	}
}

static void end_copy(struct loop *loop, void *arg)
{
	volume_copied_fn copied = fake.copied;

	(void)loop;
	(void)arg;
	fake.copied = NULL;
	copied(NULL, fake.copied_arg);
}

void fake_release(void)
{
	fake.holds_starts = false;
	fake.holds_kills = false;
	loop_defer(fake_loop, answer, NULL);
	if (fake.copied)
		loop_defer(fake_loop, end_copy, NULL);
}

static int fake_start(struct guest_host *host, const struct guest_spec *spec,
                      guest_started_fn started, guest_ended_fn ended, void *arg, struct guest **ret,
                      struct err *err)
{
	struct guest *g;

	(void)host;
	if (fake.fails_start)
		return err_set(err, ERR_CAPACITY, EMFILE, "no fds for a guest");
	g = guest_new(spec->id);
	g->started = started;
	g->ended = ended;
	g->arg = arg;
	fake.last_spec = *spec;
	fake.n_starts++;
	*ret = g;
	loop_defer(fake_loop, answer, NULL);
	return 0;
}

static int fake_adopt(struct guest_host *host, const char *id, guest_ended_fn ended, void *arg,
                      struct guest **ret, struct guest_spec *ret_spec, struct err *err)
{
	(void)host;
	if (!fake.adoptable || strcmp(id, fake.adoptable) != 0)
		return err_set(err, ERR_GONE, ESRCH, "it is dead");
	*ret = guest_new(id);
	(*ret)->ended = ended;
	(*ret)->arg = arg;
	*ret_spec = (struct guest_spec){.slot = fake.adopted_slot, .engine = ENGINE_BASE};
	(void)snprintf(ret_spec->id, sizeof(ret_spec->id), "%s", id);
	return 0;
}

static int fake_connect(struct guest *g, int *ret_fd, struct err *err)
{
	(void)g;
	*ret_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return *ret_fd < 0 ? err_set(err, ERR_INTERNAL, errno, "no fd") : 0;
}

static int fake_set_limits(struct guest *g, const struct guest_limits *limits, struct err *err)
{
	(void)g;
	(void)err;
	fake.limits = *limits;
	return 0;
}

static int fake_usage(struct guest *g, struct guest_usage *ret, struct err *err)
{
	(void)g;
	(void)err;
	*ret = (struct guest_usage){.cpu_ns = 7};
	return 0;
}

static int fake_fork(struct guest *g, const char *tag, guest_forked_fn forked, void *arg,
                     struct err *err)
{
	struct forking *f = xnew0(struct forking);

	(void)g;
	(void)err;
	(void)snprintf(fake.fork_tag, sizeof(fake.fork_tag), "%s", tag);
	*f = (struct forking){forked, arg};
	if (fake.holds_fork)
		held_fork = f;
	else
		loop_defer(fake_loop, tell_forked, f);
	return 0;
}

static void fake_shortage(struct guest *g, struct guest_shortage *ret)
{
	(void)g;
	*ret = fake.shortage;
}

static int fake_freeze(struct guest *g, bool on, struct err *err)
{
	(void)g;
	(void)err;
	fake.is_frozen = on;
	if (!on || fake.freezing == 0)
		return 0;
	return --fake.freezing > 0;
}

static int fake_open_door(struct guest *g, int ret_fds[DOOR_SOCKETS], struct err *err)
{
	for (size_t i = 0; i < DOOR_SOCKETS; i++)
		if (!fake.lacks_ipv6 || i == DOOR_TCP4 || i == DOOR_DNS4)
			ret_fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fake.n_doors++;
	(void)g;
	(void)err;
	return 0;
}

static int fake_close_door(struct guest *g, struct err *err)
{
	(void)g;
	(void)err;
	fake.n_doors = 0;
	return 0;
}

static int fake_dial(struct guest *g, int family, uint16_t port, int *ret_fd, struct err *err)
{
	fake.dialled = port;
	fake.dialled_family = family;
	return fake_connect(g, ret_fd, err);
}

static void fake_kill(struct guest *g, guest_gone_fn gone, void *arg)
{
	g->gone = gone;
	g->gone_arg = arg;
	fake.n_kills++;
	loop_defer(fake_loop, answer, NULL);
}

static void discarded(struct loop *loop, void *arg)
{
	(void)loop;
	(void)arg;
	if (fake.dead)
		fake_host.final(fake.dead, &(struct guest_usage){.cpu_ns = 2}, fake_host.final_arg);
	fake.discard_gone(fake.discard_arg);
}

static int fake_discard(struct guest_host *host, const char *id, guest_gone_fn gone, void *arg)
{
	(void)host;
	if (!fake.kept || strcmp(fake.kept, id) != 0)
		return 0;
	fake.kept = NULL;
	fake.n_discards++;
	fake.discard_gone = gone;
	fake.discard_arg = arg;
	loop_defer(fake_loop, discarded, NULL);
	return 1;
}

static void fake_each_kept(struct guest_host *host,
                           void (*fn)(const char *id, uint64_t keeper, void *arg), void *arg)
{
	(void)host;
	if (fake.kept)
		fn(fake.kept, 7, arg);
}

/* Whoever asks has seen to it that nothing else than an id and its figures comes here. */
static int fake_make_volume(struct guest_host *host, const struct volume_spec *spec,
                            struct err *err)
{
	(void)host;
	assert(id_is_valid(spec->id, "vo") && spec->keeper > 0 && spec->bytes > 0);
	if (fake.n_volumes == FAKE_VOLUMES_MAX)
		return err_set(err, ERR_CAPACITY, 0, "no room for a volume");
	fake.volumes[fake.n_volumes++] = *spec;
	return 0;
}

static int fake_copy_volume(struct guest_host *host, const struct volume_copy_spec *spec,
                            volume_copied_fn fn, void *arg, struct err *err)
{
	(void)host;
	assert(id_is_valid(spec->made.id, "vo") && spec->made.keeper > 0 && spec->made.bytes > 0);
	assert(id_is_valid(spec->source, "vo") && spec->owner < UINT64_C(1) << 48);
	if (fake.copied)
		return err_set(err, ERR_CAPACITY, 0, "a volume is being copied");
	fake.copied = fn;
	fake.copied_arg = arg;
	fake.copy = *spec;
	return 0;
}

static int fake_discard_volume(struct guest_host *host, const char *id, struct err *err)
{
	(void)host;
	(void)err;
	assert(id_is_valid(id, "vo"));
	for (size_t i = 0; i < fake.n_volumes; i++)
		if (strcmp(fake.volumes[i].id, id) == 0)
			fake.volumes[i--] = fake.volumes[--fake.n_volumes];
	return 0;
}

static int fake_freeze_kept(struct guest_host *host, backup_fn fn, void *arg, struct err *err)
{
	(void)host;
	if (fake.frozen)
		return err_set(err, ERR_CONFLICT, EBUSY, "frozen already");
	fake.frozen = fn;
	fake.frozen_arg = arg;
	return 0;
}

void fake_tell_frozen(const struct backup_counts *counts, const struct err *err)
{
	fake.frozen(counts, err, fake.frozen_arg);
}

static int fake_release_kept(struct guest_host *host, guest_gone_fn gone, void *arg)
{
	(void)host;
	(void)gone;
	(void)arg;
	fake.frozen = NULL;
	return 0;
}

static void fake_each_volume(struct guest_host *host,
                             void (*fn)(const struct volume_info *info, void *arg), void *arg)
{
	(void)host;
	for (size_t i = 0; i < fake.n_volumes; i++) {
		struct volume_info info = {.keeper = fake.volumes[i].keeper};

		(void)snprintf(info.id, sizeof(info.id), "%s", fake.volumes[i].id);
		fn(&info, arg);
	}
}

static int fake_sync_layers(struct guest_host *host, int *ret_pidfd)
{
	char byte;

	(void)host;
	if (fake.sync_fd == 0)
		return -ENOSYS;
	fake.syncer = fork();
	if (fake.syncer == 0)
		_exit(read(fake.sync_fd, &byte, 1) == 1 ? fake.sync_status : 9);
	*ret_pidfd = fake.syncer < 0 ? -1 : (int)syscall(SYS_pidfd_open, fake.syncer, 0);
	return *ret_pidfd < 0 ? -errno : 0;
}

void fake_end_guest(const char *id, int wait_status)
{
	for (struct list *l = guests.next; l != &guests; l = l->next) {
		struct guest *g = list_entry(l, struct guest, link);

		if (strcmp(g->id, id) == 0) {
			g->ended(g, wait_status, g->arg);
			return;
		}
	}
}

static int machine_probe(const struct engine_host *given, struct guest_host **ret, struct err *err)
{
	(void)given;
	(void)ret;
	return err_set(err, ERR_UNSUPPORTED, ENOSYS, "told to be missing");
}

/* One that this host has not. */
static const struct engine fake_machine = {
	.name = "machine",
	.number = FAKE_MACHINE,
	.traits = {.has_own_kernel = true, .has_own_disk = true},
	.probe = machine_probe,
};

static const struct engine fake_engine = {
	.name = "fake",
	.number = ENGINE_BASE,
	.traits = {.has_volumes = true},
	.probe = fake_probe,
	.leave = fake_leave,
	.isolation = fake_isolation,
	.start = fake_start,
	.adopt = fake_adopt,
	.connect = fake_connect,
	.set_limits = fake_set_limits,
	.usage = fake_usage,
	.shortage = fake_shortage,
	.freeze = fake_freeze,
	.fork = fake_fork,
	.open_door = fake_open_door,
	.close_door = fake_close_door,
	.dial = fake_dial,
	.kill = fake_kill,
	.discard = fake_discard,
	.each_kept = fake_each_kept,
	.make_volume = fake_make_volume,
	.copy_volume = fake_copy_volume,
	.discard_volume = fake_discard_volume,
	.each_volume = fake_each_volume,
	.freeze_kept = fake_freeze_kept,
	.release_kept = fake_release_kept,
	.sync_layers = fake_sync_layers,
};

const struct engine *const engines[] = {&fake_engine, &fake_machine, NULL};
