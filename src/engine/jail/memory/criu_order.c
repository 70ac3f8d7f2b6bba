// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/memory/criu_order.h"

#include "base/fd.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#define MOUNTS_MAX (1 << 20)

/* Its fds: those of every order, then those of a restore; the last may be absent. */
enum {
	CONTROL_IN,
	CONTROL_OUT,
	WORDS,
	IMAGES,
	NET,
	MOUNTS,
	DUMP_FDS,
	ROOT = DUMP_FDS,
	MACHINE_VIEW,
	USR,
	FDS_MAX
};

struct order {
	bool is_restore, closes_connections;
	int32_t pid;
	uint32_t slot;
	char id[sizeof((struct guest_spec){0}.id)];
	char hostname[sizeof((struct guest_spec){0}.hostname)];
	cpu_set_t cpus;
};
static_assert(sizeof(struct order) <= STARTER_ORDER_MAX, "an order is too long");

static int write_mounts(const char *text, int *ret_fd)
{
	*ret_fd = memfd_create("criu-mounts", MFD_CLOEXEC);
	return *ret_fd < 0 ? -errno : fd_write_all(*ret_fd, text, strlen(text));
}

int criu_order_send(struct guest_host *host, const struct criu_spec *spec, const int control[2],
                    struct criu *ret)
{
	auto_fd int mounts_fd = -1;
	struct order order = {.is_restore = spec->is_restore,
	                      .closes_connections = spec->closes_connections,
	                      .pid = spec->pid,
	                      .cpus = spec->cpus};
	int r = write_mounts(spec->mounts, &mounts_fd);
	const int fds[FDS_MAX] = {control[0],   control[1], ret->words_fd, spec->images_fd,
	                          spec->net_fd, mounts_fd,  spec->root_fd, spec->machine_view_fd,
	                          spec->usr_fd};
	const size_t n_fds = !spec->is_restore ? DUMP_FDS : spec->usr_fd < 0 ? USR : FDS_MAX;

	if (r < 0)
		return r;
	if (spec->is_restore) {
		order.slot = spec->guest->slot;
		memcpy(order.id, spec->guest->id, sizeof(order.id));
		memcpy(order.hostname, spec->guest->hostname, sizeof(order.hostname));
	}
	return starter_ask(
		host->starter, HOST_JOB_CRIU,
		&(struct starter_order){
			.data = &order, .len = sizeof(order), .fds = fds, .n_fds = n_fds},
		&ret->pid, &ret->pidfd);
}

int criu_order_run(const struct starter_order *given, void *arg)
{
	struct guest_spec guest = {0};
	const int *fds = given->fds;
	auto_free char *mounts = NULL;
	struct criu_spec spec;
	struct order order;
	ssize_t n;

	if (given->len != sizeof(order) || given->n_fds < DUMP_FDS)
		return -EINVAL;
	memcpy(&order, given->data, sizeof(order));
	if (order.is_restore && given->n_fds < USR)
		return -EINVAL;
	mounts = xcalloc(1, MOUNTS_MAX + 1);
	n = pread(fds[MOUNTS], mounts, MOUNTS_MAX, 0);
	if (n < 0)
		return -errno;
	guest.slot = order.slot;
	memcpy(guest.id, order.id, sizeof(guest.id) - 1);
	memcpy(guest.hostname, order.hostname, sizeof(guest.hostname) - 1);
	spec = (struct criu_spec){.is_restore = order.is_restore,
	                          .images_fd = fds[IMAGES],
	                          .net_fd = fds[NET],
	                          .mounts = mounts,
	                          .pid = order.pid,
	                          .closes_connections = order.closes_connections,
	                          .guest = &guest,
	                          .cpus = order.cpus,
	                          .usr_fd = given->n_fds > USR ? fds[USR] : -1};
	if (order.is_restore) {
		spec.root_fd = fds[ROOT];
		spec.machine_view_fd = fds[MACHINE_VIEW];
	}
	criu_run(arg, &spec, &fds[CONTROL_IN], fds[WORDS]);
}
