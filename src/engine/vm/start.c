// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/start.h"

#include "base/fd.h"
#include "base/units.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/machine_view.h"
#include "engine/layer/own_tmpfs.h"
#include "engine/linux/namespaces.h"
#include "engine/vm/ask.h"
#include "engine/vm/boot/kvm.h"
#include "engine/vm/boot/machine.h"
#include "engine/vm/child.h"
#include "engine/vm/copy.h"
#include "engine/vm/disk.h"
#include "engine/vm/ram.h"
#include "engine/vm/shown.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define START_IDENTITY "identity"  /* in the run directory */
#define QEMU_MEMORY    (192 * MIB) /* its own, with 64 MiB of translated code */
#define QEMU_THREADS   192         /* of the disks' reads and writes, most of them */

struct guest_limits vm_group_limits(const struct guest_limits *limits)
{
	struct guest_limits l = *limits;

	l.memory_bytes += QEMU_MEMORY;
	l.pids = QEMU_THREADS;
	return l;
}

static int check_limits(const struct guest_limits *l, struct err *err)
{
	if (l->memory_bytes < MACHINE_MEMORY_LEAST)
		return err_field(err, "limits.memory_mib", "a vm needs at least %u",
		                 (unsigned)(MACHINE_MEMORY_LEAST / MIB));
	if (l->disk_bytes < MACHINE_DISK_LEAST)
		return err_field(err, "limits.disk_mib", "a vm needs at least %u",
		                 (unsigned)(MACHINE_DISK_LEAST / MIB));
	return 0;
}

/* The image and, behind the shown disks, its bases. */
static int open_template(struct start *s, struct err *err)
{
	struct erofs_bases bases;
	int fds[IMAGE_FILES_MAX];
	int r = images_open_files(&s->g->host->images, &s->g->spec.image, fds, &bases, err);

	if (r < 0)
		return r;
	s->own_fds[START_TEMPLATE] = fds[0];
	memcpy(&s->own_fds[START_BASES], fds + 1, EROFS_BASES_MAX * sizeof(int));
	return 0;
}

static size_t count_bases(const struct start *s)
{
	size_t n = 0;

	while (n < EROFS_BASES_MAX && s->own_fds[START_BASES + n] >= 0)
		n++;
	return n;
}

int vm_open_machine(struct start *s, struct err *err)
{
	struct machine_fds fds = {-1, -1, -1};
	struct guest_spec *spec = &s->g->spec;
	int r = check_limits(&spec->limits, err);

	if (r == 0 && digest_is_zero(&spec->image)) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "template 'host' is made of this host's own files, which no vm sees");
		return err_hint(err, "name a template that has an image, such as python");
	}
	if (r == 0)
		r = open_template(s, err);
	if (r == 0)
		r = machine_open(s->g->host, &fds, err);
	s->own_fds[START_KERNEL] = fds.kernel_fd;
	s->own_fds[START_INITRD] = fds.initrd_fd;
	s->own_fds[START_FITTINGS] = fds.fittings_fd;
	spec->is_kvm = kvm_is_usable();
	if (r < 0)
		return r;
	if (!spec->with_memory)
		return ram_make(spec->limits.memory_bytes / MIB * MIB, &s->own_fds[START_RAM], err);
	close_fd(&s->own_fds[START_KERNEL]);
	return copy_open(s->g->host, spec, &s->own_fds[START_RAM], &s->own_fds[START_KERNEL], err);
}

int vm_make_disk(struct start *s, struct err *err)
{
	const struct guest_spec *spec = &s->g->spec;
	int r = storage_limit(&s->g->host->storage, spec->id, disk_snapshot_limit(s->g->host, spec),
	                      err);

	if (r == 0 && !spec->is_resumed && !spec->snapshot[0])
		r = disk_make(&s->g->host->storage, s->layer_fd, spec->limits.disk_bytes,
		              spec->limits.inodes, err);
	return r == 0 ? disk_open(s->layer_fd, &s->own_fds[START_SCRATCH], err) : r;
}

/* Written beside the record, because a broker of another version may adopt the machine and save
 * it. */
static int write_identity(const struct guest *g, struct err *err)
{
	struct identity identity;
	int r = machine_identity(g->host, &identity, err);

	if (r < 0)
		return r;
	r = fd_replace_file(g->dir_fd, START_IDENTITY, &identity, sizeof(identity), 0600,
	                    /* sync= */ false);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write down what the machine is") : 0;
}

int vm_read_identity(const struct guest *g, struct identity *ret, struct err *err)
{
	auto_fd int fd = openat(g->dir_fd, START_IDENTITY, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_read_all(fd, ret, sizeof(*ret));

	return r < 0 ? err_set(err, ERR_UNSUPPORTED, -r,
	                       "the machine was started by an older cloche")
	             : 0;
}

int vm_send_orders(struct start *s, struct err *err)
{
	const size_t n_shown = shown_count(&s->g->spec), n_bases = count_bases(s);
	int fds[VM_ORDER_FDS + CGROUP_TREES_MAX + SHOWN_MAX + EROFS_BASES_MAX];
	auto_fd int userns_fd = -1, usr_fd = -1, own_tmpfs_fd = -1, control_fd = -1;
	char path[48];
	ssize_t n;
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)s->g->pid);
	userns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (userns_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the user namespace");
	r = namespaces_idmapped_mount(s->g->host->usr_fd, userns_fd, /* is_read_only= */ true,
	                              &usr_fd, err);
	if (r == 0)
		r = own_tmpfs_make_sealed(&own_tmpfs_fd, err);
	if (r == 0)
		r = ask_listen(s->g, &control_fd, err);
	if (r == 0)
		r = write_identity(s->g, err);
	if (r < 0)
		return r;
	fds[VM_ORDER_USR] = usr_fd;
	fds[VM_ORDER_OWN_TMPFS] = own_tmpfs_fd;
	fds[VM_ORDER_VMM] = s->g->host->vmm_fd;
	fds[VM_ORDER_LISTEN] = s->jail.listen_fd;
	fds[VM_ORDER_CONTROL] = control_fd;
	memcpy(fds + VM_ORDER_RAM, s->own_fds, START_SHOWN * sizeof(int));
	memcpy(fds + VM_ORDER_FDS, s->jail.user_fds, s->jail.n_user_fds * sizeof(int));
	memcpy(fds + VM_ORDER_FDS + s->jail.n_user_fds, s->own_fds + START_SHOWN,
	       n_shown * sizeof(int));
	memcpy(fds + VM_ORDER_FDS + s->jail.n_user_fds + n_shown, s->own_fds + START_BASES,
	       n_bases * sizeof(int));
	s->jail.orders.n_bases = (uint32_t)n_bases;
	s->jail.orders.spec = s->g->spec;
	s->jail.orders.boot_max_us = machine_boot_max_us(s->g->spec.is_kvm);
	machine_view_pick_cpus(s->g->spec.slot, &s->g->spec.limits, &s->jail.orders.cpus);
	n = fd_send(s->go_fd, &s->jail.orders, sizeof(s->jail.orders), fds,
	            VM_ORDER_FDS + s->jail.n_user_fds + n_shown + n_bases);
	return n < 0 ? err_set(err, ERR_INTERNAL, (int)-n, "cannot send the orders") : 0;
}
