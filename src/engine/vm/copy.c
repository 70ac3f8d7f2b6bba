// SPDX-License-Identifier: Apache-2.0
/*
 * Users can never bring such a state: the directory belongs to the broker
 * (engine/guest/disk_snapshot.h), and this host wrote what is in it. It is still checked against
 * its hashes and against this host's identity (identity.h).
 */
#include "engine/vm/copy.h"

#include "base/log.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/vm/boot/kvm.h"
#include "engine/vm/boot/machine.h"
#include "engine/vm/ram.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEALS        (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)
#define HOST_PART    4 /* of the host's memory: what all of them together may have */
#define EXIT_DAMAGED 2

struct copy {
	struct list link; /* the last used comes last */
	char id[ID_SIZE];
	struct saved saved;
	int ram_fd;
	bool is_ready;
	struct loop_child *child; /* that reads it */
	struct list waiters;
};

struct waiter {
	struct list link;
	struct guest *g;
	void (*done)(struct guest *g, const struct err *err);
};

static struct list copies = LIST_INIT(copies);

static struct copy *find(const char *id)
{
	list_for_each (&copies, struct copy, c, link)
		if (strcmp(c->id, id) == 0)
			return c;
	return NULL;
}

static uint64_t size_of(const struct copy *c)
{
	struct stat st;

	return fstat(c->ram_fd, &st) < 0 ? 0 : (uint64_t)st.st_blocks * 512;
}

static void copy_free(struct copy *c)
{
	list_remove(&c->link);
	loop_child_remove(c->child);
	list_for_each (&c->waiters, struct waiter, w, link) {
		list_remove(&w->link);
		free(w);
	}
	(void)close(c->ram_fd);
	free(c);
}

static void make_room(void)
{
	const uint64_t most =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / HOST_PART;
	uint64_t sum = 0;

	list_for_each (&copies, const struct copy, c, link)
		sum += size_of(c);
	list_for_each (&copies, struct copy, c, link) {
		if (sum <= most || c->link.next == &copies)
			return;
		if (!c->is_ready)
			continue;
		sum -= size_of(c);
		copy_free(c);
	}
}

static void use(struct copy *c)
{
	list_remove(&c->link);
	list_append(&copies, &c->link);
}

static struct copy *copy_new(const char *id, const struct saved *saved, int ram_fd)
{
	struct copy *c = xnew0(struct copy);

	c->saved = *saved;
	c->ram_fd = ram_fd;
	(void)snprintf(c->id, sizeof(c->id), "%s", id);
	list_init(&c->waiters);
	list_append(&copies, &c->link);
	return c;
}

/* Seals it, so that it can never change. */
static int seal(struct copy *c)
{
	c->is_ready = fcntl(c->ram_fd, F_ADD_SEALS, SEALS) == 0;
	make_room();
	return c->is_ready ? 0 : -EIO;
}

void copy_remember(const char *id, const struct saved *saved, int ram_fd)
{
	struct copy *c = copy_new(id, saved, ram_fd);

	if (seal(c) < 0)
		copy_free(c); /* read again when it is needed */
}

void copy_forget(const char *id)
{
	struct copy *c = find(id);

	if (c && c->is_ready)
		copy_free(c);
}

void copies_close(void)
{
	list_for_each (&copies, struct copy, c, link)
		copy_free(c);
}

static int refuse(struct err *err, const char *of)
{
	(void)err_set(err, ERR_CONFLICT, 0, "the memory was saved under another %s", of);
	return err_hint(err, "start from it with memory: false: its files go on anywhere");
}

static int check(struct guest_host *host, const struct guest_spec *spec, const struct saved *saved,
                 struct err *err)
{
	struct identity now;
	int r = machine_identity(host, &now, err);

	if (r < 0)
		return r;
	if (!digest_equal(&now.qemu, &saved->identity.qemu) || saved->is_kvm != kvm_is_usable())
		return refuse(err, "QEMU or processor");
	if (!digest_equal(&now.cloche, &saved->identity.cloche))
		return refuse(err, "version of cloche");
	if (spec->with_memory == MEMORY_WARM && !digest_equal(&now.kernel, &saved->identity.kernel))
		return refuse(err, "guest kernel");
	if (saved->memory_bytes != spec->limits.memory_bytes)
		return err_field(err, "limits.memory_mib", "the saved machine has %u",
		                 (unsigned)(saved->memory_bytes >> 20));
	if (saved->cpus != machine_cpus(&spec->limits))
		return err_field(err, "limits.vcpus", "the saved machine has %u", saved->cpus);
	if (saved->disk_bytes != spec->limits.disk_bytes)
		return err_field(err, "limits.disk_mib", "the saved machine has %u",
		                 (unsigned)(saved->disk_bytes >> 20));
	return 0;
}

static void on_read(struct loop *loop, int wait_status, void *arg)
{
	struct copy *c = arg;
	struct list waiters = LIST_INIT(waiters);
	struct err err = {0};

	(void)loop;
	c->child = NULL;
	use(c); /* room is made of others: those that wait for it come first */
	if (wait_status != 0)
		(void)saved_damaged(&err);
	else if (seal(c) < 0)
		(void)err_set(&err, ERR_INTERNAL, 0, "cannot seal a memory");
	list_for_each (&c->waiters, struct waiter, w, link) {
		list_remove(&w->link);
		list_append(&waiters, &w->link);
	}
	if (err.code != ERR_NONE) {
		log_warn("vm.damaged_copy", "id=%s error='%s'", c->id, err.message);
		copy_free(c);
	}
	list_for_each (&waiters, struct waiter, w, link) {
		list_remove(&w->link);
		w->done(w->g, err.code == ERR_NONE ? NULL : &err);
		free(w);
	}
}

/* In the child: its exit status. */
static int read_all(int dir_fd, const struct copy *c)
{
	auto_fd int ram = openat(dir_fd, SAVED_RAM, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int state = openat(dir_fd, SAVED_STATE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct digest found;

	if (ram < 0 || state < 0 || saved_hash(state, &found) < 0 ||
	    !digest_equal(&found, &c->saved.state))
		return EXIT_DAMAGED;
	if (ram_read(ram, c->ram_fd, &found, NULL) < 0)
		return EXIT_DAMAGED;
	return digest_is_zero(&c->saved.ram) || digest_equal(&found, &c->saved.ram) ? 0
	                                                                            : EXIT_DAMAGED;
}

static int start_reading(struct guest_host *host, const char *id, const struct saved *saved,
                         int dir_fd, struct copy **ret, struct err *err)
{
	struct copy *c;
	int ram_fd, pidfd = -1;
	int r = ram_make(saved->memory_bytes, &ram_fd, err);
	pid_t pid;

	if (r < 0)
		return r;
	c = copy_new(id, saved, ram_fd);
	pid = disk_snapshot_fork(&pidfd);
	if (pid == 0)
		_exit(read_all(dir_fd, c));
	r = pid < 0 ? -errno : loop_child_take(host->loop, pidfd, on_read, c, &c->child);
	if (r < 0) {
		copy_free(c);
		return err_set(err, ERR_CAPACITY, -r, "cannot read the saved memory");
	}
	*ret = c;
	return 0;
}

int copy_need(struct guest *g, void (*done)(struct guest *g, const struct err *err),
              struct err *err)
{
	struct copy *c = find(g->spec.snapshot);
	auto_fd int dir_fd = -1;
	struct waiter *w;
	struct saved saved;
	int r = disk_snapshot_open_memory(g->host, g->spec.snapshot, &dir_fd, err);

	if (r == 0)
		r = saved_read(dir_fd, &saved, err);
	if (r == 0)
		r = check(g->host, &g->spec, &saved, err);
	if (r == 0 && !c)
		r = start_reading(g->host, g->spec.snapshot, &saved, dir_fd, &c, err);
	if (r < 0)
		return r;
	if (c->is_ready) {
		use(c);
		done(g, NULL);
		return 0;
	}
	w = xnew0(struct waiter);
	*w = (struct waiter){.g = g, .done = done};
	list_append(&c->waiters, &w->link);
	return 0;
}

void copy_unneed(struct guest *g)
{
	list_for_each (&copies, const struct copy, c, link)
		list_for_each (&c->waiters, struct waiter, w, link)
			if (w->g == g) {
				list_remove(&w->link);
				free(w);
			}
}

int copy_open(struct guest_host *host, const struct guest_spec *spec, int *ret_ram_fd,
              int *ret_state_fd, struct err *err)
{
	const struct copy *c = find(spec->snapshot);
	auto_fd int dir_fd = -1;
	int r = disk_snapshot_open_memory(host, spec->snapshot, &dir_fd, err);

	if (r < 0)
		return r;
	if (!c || !c->is_ready) /* pushed out by others meanwhile */
		return err_set(err, ERR_CAPACITY, 0, "too many memories are in use at once");
	*ret_ram_fd = fcntl(c->ram_fd, F_DUPFD_CLOEXEC, 0);
	*ret_state_fd = openat(dir_fd, SAVED_STATE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_ram_fd < 0 || *ret_state_fd < 0
	               ? err_set(err, ERR_CAPACITY, errno, "cannot open a saved memory")
	               : 0;
}
