// SPDX-License-Identifier: Apache-2.0
/*
 * The fittings are the jail's (fittings.h) as one erofs file, so the guest assembles its root as a
 * jail does: template, fittings over it, the sandbox's own layer on top.
 */
#include "engine/vm/boot/machine.h"

#include "base/process/spawn.h"
#include "engine/guest/guest.h"
#include "engine/vm/boot/initrd.h"
#include "engine/vm/boot/kernel.h"
#include "engine/vm/boot/kvm.h"

#include <fcntl.h>
#include <stdio.h>

#if defined(__x86_64__)
#define QEMU         "/usr/bin/qemu-system-x86_64"
#define QEMU_PACKAGE "qemu-system-x86"
#else
#define QEMU         "/usr/bin/qemu-system-aarch64"
#define QEMU_PACKAGE "qemu-system-arm"
#endif
#define FITTINGS "fittings.erofs"
#define UUID     "-Uc10c4e00-0000-4000-8000-000000000001"

static struct {
	bool is_open;
	uint64_t boot_max_us;
	struct digest kernel;
	struct machine_fds fds;
	struct identity identity;
} machine;

void machine_set_boot_max(uint64_t us)
{
	machine.boot_max_us = us;
}

/* With KVM a boot takes a fraction of the emulated time; a machine that takes longer hangs. */
uint64_t machine_boot_max_us(bool is_kvm)
{
	return is_kvm ? machine.boot_max_us / 4 : machine.boot_max_us;
}

int machine_probe(struct guest_host *host, struct err *err)
{
	if (host->vmm_fd < 0) {
		(void)err_set(err, ERR_UNSUPPORTED, ENOENT, "there is no cloche-vmm beside cloche");
		return err_hint(err, "install it with cloche, or leave engine out");
	}
	if (access(QEMU, X_OK) < 0) {
		(void)err_set(err, ERR_UNSUPPORTED, errno, "this host has no " QEMU);
		return err_hint(err, "apt-get install --no-install-recommends " QEMU_PACKAGE);
	}
	return 0;
}

/* Made in the run directory, which is empty after a reboot. A file that running vms have open is
 * replaced, not changed. */
static int make_fittings(struct guest_host *host, int *ret_fd, struct err *err)
{
	auto_free char *file = xasprintf("%s/../" FITTINGS, host->sandboxes_dir);
	auto_free char *made = xasprintf("%s.new", file);
	auto_free char *tree = xasprintf("/proc/%d/fd/%d/fit", (int)getpid(), host->template_fd);
	const char *const argv[] = {"mkfs.erofs", "--quiet", "-d1", "-x-1", UUID,
	                            "-T0",        made,      tree,  NULL};
	int r = spawn_run(argv, err);

	if (r < 0)
		return err_hint(err, "install erofs-utils on the host");
	if (rename(made, file) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot name '%s'", file);
	*ret_fd = open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	/* Processes that have it open keep it; nobody else needs to find it. */
	(void)unlink(file);
	return *ret_fd < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", file) : 0;
}

void machine_close(void)
{
	if (!machine.is_open)
		return;
	close_fd(&machine.fds.kernel_fd);
	close_fd(&machine.fds.initrd_fd);
	close_fd(&machine.fds.fittings_fd);
	machine.is_open = false;
}

/* An uncompressed kernel boots sooner in emulation, where unpacking is slow. */
static int open_kernel(int dir_fd)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir_fd, "vmlinux", flags);

	return fd >= 0 ? fd : openat(dir_fd, "vmlinuz", flags);
}

static int make(struct guest_host *host, int dir_fd, struct err *err)
{
	auto_fd int kernel_fd = open_kernel(dir_fd);
	auto_fd int initrd_fd = -1, fittings_fd = -1;
	int r;

	if (kernel_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "the guest kernel's image has no vmlinuz");
	r = initrd_make(dir_fd, host->agent_fd, &initrd_fd, err);
	if (r == 0)
		r = make_fittings(host, &fittings_fd, err);
	if (r < 0)
		return r;
	machine.fds = (struct machine_fds){.kernel_fd = take_fd(&kernel_fd),
	                                   .initrd_fd = take_fd(&initrd_fd),
	                                   .fittings_fd = take_fd(&fittings_fd)};
	machine.is_open = true;
	return 0;
}

/* An operator's own kernel has no digest, so it is identified by its file. */
static int identify(struct guest_host *host, const struct digest *kernel, struct err *err)
{
	const int own[] = {host->agent_fd, host->vmm_fd, machine.fds.fittings_fd};
	int r = identity_read(QEMU, kvm_is_usable(), own, ARRAY_SIZE(own), &machine.identity, err);

	machine.identity.kernel = *kernel;
	if (r == 0 && digest_is_zero(kernel))
		r = identity_of_file(machine.fds.kernel_fd, &machine.identity.kernel);
	return r;
}

int machine_identity(struct guest_host *host, struct identity *ret, struct err *err)
{
	struct machine_fds fds = {-1, -1, -1};
	int r = machine_open(host, &fds, err);

	close_fd(&fds.kernel_fd);
	close_fd(&fds.initrd_fd);
	close_fd(&fds.fittings_fd);
	*ret = machine.identity;
	return r;
}

uint32_t machine_cpus(const struct guest_limits *limits)
{
	return MAX((limits->cpu_milli + 999) / 1000, 1U);
}

static int copy_fd(int fd, int *ret, struct err *err)
{
	*ret = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return *ret < 0 ? err_set(err, ERR_CAPACITY, errno, "cannot copy a descriptor") : 0;
}

int machine_open(struct guest_host *host, struct machine_fds *ret, struct err *err)
{
	auto_fd int data_fd = open(host->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int dir_fd = -1;
	struct digest kernel;
	int r = machine_probe(host, err);

	if (r == 0 && data_fd < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot open the data directory");
	if (r == 0)
		r = kernel_open(&host->images, data_fd, &dir_fd, &kernel, err);
	if (r == 0 && machine.is_open && !digest_equal(&kernel, &machine.kernel))
		machine_close();
	if (r == 0 && !machine.is_open) {
		r = make(host, dir_fd, err);
		if (r == 0)
			r = identify(host, &kernel, err);
	}
	if (r < 0)
		return r;
	machine.kernel = kernel;
	r = copy_fd(machine.fds.kernel_fd, &ret->kernel_fd, err);
	if (r == 0)
		r = copy_fd(machine.fds.initrd_fd, &ret->initrd_fd, err);
	if (r == 0)
		r = copy_fd(machine.fds.fittings_fd, &ret->fittings_fd, err);
	return r;
}
