// SPDX-License-Identifier: Apache-2.0
/*
 * The machine is as small as a distribution's kernel can boot on: PCI, a serial console, virtio for
 * all the rest, and no default devices. The guest knows disks by their serial numbers. -no-reboot
 * turns every way in which a guest can restart (panic, triple fault, reboot) into the end of this
 * process.
 *
 * -sandbox is QEMU's own seccomp filter, on top of the one that is already loaded. QMP and the
 * other sockets are fds, and disks are fd sets. Memory, kernel and initrd, which QEMU opens by
 * name, are given as /proc/self/fd.
 *
 * The memory of a machine that boots is a memfd, which grows with use. The memory of a copy is a
 * private mapping of a sealed one, so copies share pages that they do not change. The stream with a
 * copy's devices (save.c) has no preamble and no epilogue; that is what the two migration settings
 * are for.
 */
#include "vmm/qemu.h"

#include "base/fd.h"
#include "proto/port.h"
#include "vmm/asks.h"
#include "vmm/ticks.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#if defined(__x86_64__)
#define PROGRAM "/usr/bin/qemu-system-x86_64"
#define MACHINE "q35,usb=off,vmport=off,smbus=off,sata=off,hpet=off"
#define CONSOLE "ttyS0"
/* Without features that are slow in emulation: a fifth level of page tables, and string copies by
 * one instruction, which are emulated byte by byte. */
#define CPU "max,-la57,-erms"
#elif defined(__aarch64__)
#define PROGRAM "/usr/bin/qemu-system-aarch64"
#define MACHINE "virt,gic-version=max"
#define CONSOLE "ttyAMA0"
/* Pointer authentication with the real cipher would take most of the CPU time. */
#define CPU     "max,pauth=off"
#else
#error "which machine is this?"
#endif

/* The cache of translated code: the default is a quarter of RAM, or a gigabyte. */
#define TCG "tcg,tb-size=64"
#define APPEND                                                                                     \
	"console=" CONSOLE " quiet loglevel=3 panic=-1 random.trust_cpu=on cryptomgr.notests "     \
	"audit=0 lsm=landlock,lockdown,yama nowatchdog psi=0"
/* There is no speculation in emulation, so no mitigations are needed. */
#define EMULATED  " mitigations=off tsc=reliable no_timer_check"
#define SANDBOX   "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
#define WORDS_MAX 192
#define WORD_SIZE 256

struct words {
	char text[WORDS_MAX][WORD_SIZE];
	const char *argv[WORDS_MAX + 1];
	size_t n;
	bool is_full;
};

static void add(struct words *w, const char *fmt, ...) printf_like(2, 3);

static void add(struct words *w, const char *fmt, ...)
{
	va_list args;
	int len;

	if (w->n == WORDS_MAX) {
		w->is_full = true;
		return;
	}
	va_start(args, fmt);
	len = vsnprintf(w->text[w->n], WORD_SIZE, fmt, args);
	va_end(args);
	w->is_full |= len >= WORD_SIZE;
	w->argv[w->n] = w->text[w->n];
	w->n++;
}

static void add_option(struct words *w, const char *option, const char *value)
{
	add(w, "%s", option);
	add(w, "%s", value);
}

static void add_disk(struct words *w, const char *name, int fd, bool is_read_only)
{
	const char *how = is_read_only ? "read-only=on" : "read-only=off,discard=unmap";

	add(w, "-add-fd");
	add(w, "fd=%d,set=%d", fd, fd);
	add(w, "-blockdev");
	add(w, "driver=file,node-name=%s-file,filename=/dev/fdset/%d,locking=off,%s", name, fd,
	    how);
	add(w, "-blockdev");
	add(w, "driver=raw,node-name=%s,file=%s-file,%s", name, name, how);
	add(w, "-device");
	add(w, "virtio-blk-pci,drive=%s,serial=%s", name, name);
}

static void add_socket(struct words *w, const char *name, int fd)
{
	add(w, "-chardev");
	add(w, "socket,id=%s,fd=%d", name, fd);
}

static void add_append(struct words *w, const struct vmm_orders *o)
{
	const uint64_t khz = o->is_kvm ? 0 : ticks_khz();
	char ticks[48] = "", shown[40] = "", bases[40] = "";

	if (khz > 0)
		(void)snprintf(ticks, sizeof(ticks), " tsc_early_khz=%" PRIu64, khz);
	if (o->n_shown > 0)
		(void)snprintf(shown, sizeof(shown), " " PORT_SHOWN_OPTION "%u", o->n_shown);
	if (o->n_bases > 0)
		(void)snprintf(bases, sizeof(bases), " " PORT_BASES_OPTION "%u", o->n_bases);
	add(w, "-append");
	add(w, "%s%s%s%s", o->is_kvm ? APPEND : APPEND EMULATED, ticks, shown, bases);
}

/* A copy needs no kernel: it is in its memory. */
static void add_beginning(struct words *w, const struct vmm_orders *o)
{
	if (o->is_copy) {
		add(w, "-incoming");
		add(w, "fd:%d", VMM_FD_KERNEL);
		return;
	}
	add(w, "-kernel");
	add(w, "/proc/self/fd/%d", VMM_FD_KERNEL);
	add(w, "-initrd");
	add(w, "/proc/self/fd/%d", VMM_FD_INITRD);
	add_append(w, o);
}

static int shown_fd(const struct vmm_orders *o, uint32_t i)
{
	return VMM_FD_GROUPS + (int)(o->n_groups + i);
}

static int base_fd(const struct vmm_orders *o, uint32_t i)
{
	return shown_fd(o, o->n_shown + i);
}

struct far_ends {
	int port_fd, console_fd, qmp_fd, words_fd;
};

static void compose(struct words *w, const struct vmm_orders *o, const struct far_ends *far)
{
	static const char *const plain[] = {"-nodefaults", "-no-user-config", "-no-reboot"};

	add(w, "qemu");
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		add(w, "%s", plain[i]);
	add_option(w, "-display", "none");
	add_option(w, "-sandbox", SANDBOX);
	add_option(w, "-machine", MACHINE ",memory-backend=ram,suppress-vmdesc=on");
	add_option(w, "-global", "migration.send-configuration=off");
	add_option(w, "-accel", o->is_kvm ? "kvm" : TCG);
	add_option(w, "-cpu", o->is_kvm ? "host" : CPU);
	add(w, "-m");
	add(w, "%uM", o->memory_mib);
	add(w, "-smp");
	add(w, "%u", o->cpus);
	add(w, "-object");
	add(w, "memory-backend-file,id=ram,size=%uM,mem-path=/proc/self/fd/%d,share=%s",
	    o->memory_mib, VMM_FD_RAM, o->is_copy ? "off" : "on");
	add_beginning(w, o);
	add_socket(w, "console", far->console_fd);
	add_option(w, "-serial", "chardev:console");
	add_socket(w, "qmp", far->qmp_fd);
	add_option(w, "-mon", "chardev=qmp,mode=control");
	add_option(w, "-device", "virtio-serial-pci,max_ports=2");
	add_socket(w, "port", far->port_fd);
	add_option(w, "-device", "virtserialport,chardev=port,name=" PORT_NAME);
	/* For a network card, which is plugged in when there is a door. */
	add_option(w, "-device", "pcie-root-port,id=" CARD_BUS ",chassis=1");
	add_option(w, "-object", "rng-builtin,id=rng");
	add_option(w, "-device", "virtio-rng-pci,rng=rng");
	add_disk(w, PORT_TEMPLATE, VMM_FD_TEMPLATE, /* is_read_only= */ true);
	add_disk(w, PORT_FITTINGS, VMM_FD_FITTINGS, /* is_read_only= */ true);
	add_disk(w, PORT_SCRATCH, VMM_FD_SCRATCH, /* is_read_only= */ false);
	for (uint32_t i = 0; i < o->n_shown; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), PORT_SHOWN "%u", i);
		add_disk(w, name, shown_fd(o, i), /* is_read_only= */ false);
	}
	for (uint32_t i = 0; i < o->n_bases; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), PORT_BASE "%u", i);
		add_disk(w, name, base_fd(o, i), /* is_read_only= */ true);
	}
}

/* QEMU inherits only the fds that it is told of; the rest close with the exec. */
static bool keep_fds(const struct vmm_orders *o, const struct far_ends *far)
{
	const int kept[] = {VMM_FD_RAM,      VMM_FD_KERNEL,   VMM_FD_INITRD,
	                    VMM_FD_TEMPLATE, VMM_FD_FITTINGS, VMM_FD_SCRATCH,
	                    far->port_fd,    far->console_fd, far->qmp_fd};

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (fcntl(kept[i], F_SETFD, 0) < 0)
			return false;
	for (uint32_t i = 0; i < o->n_shown + o->n_bases; i++)
		if (fcntl(shown_fd(o, i), F_SETFD, 0) < 0)
			return false;
	return dup2(far->words_fd, STDOUT_FILENO) >= 0 && dup2(far->words_fd, STDERR_FILENO) >= 0;
}

/* Joins the cgroups with the sandbox's limits before the guest runs. */
static bool join_groups(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (write(VMM_FD_GROUPS + (int)i, "0", 1) != 1)
			return false;
	return true;
}

_Noreturn static void become(const struct vmm_orders *orders, const struct far_ends *far)
{
	static struct words words;
	static char *const env[] = {NULL};

	compose(&words, orders, far);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!words.is_full && join_groups(orders->n_groups) && keep_fds(orders, far))
		(void)execve(PROGRAM, unconst(words.argv), env);
	(void)dprintf(STDERR_FILENO, "cannot run " PROGRAM ": %s\n", strerrordesc_np(errno));
	_exit(127);
}

static int make_pair(int *ret_near, int *ret_far, struct err *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a socket pair");
	*ret_near = pair[0];
	*ret_far = pair[1];
	return fd_set_nonblock(*ret_near, true);
}

int qemu_start(const struct vmm_orders *orders, struct qemu *ret, struct err *err)
{
	struct far_ends far;
	struct qemu q = {.pid = -1};
	int r = make_pair(&q.port_fd, &far.port_fd, err);

	/* On failure this process exits, and that closes what is open. */
	if (r == 0)
		r = make_pair(&q.console_fd, &far.console_fd, err);
	if (r == 0)
		r = make_pair(&q.qmp_fd, &far.qmp_fd, err);
	if (r == 0)
		r = make_pair(&q.words_fd, &far.words_fd, err);
	if (r < 0)
		return r;
	q.pid = fork();
	if (q.pid == 0)
		become(orders, &far);
	if (q.pid < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot start QEMU");
	q.pidfd = pidfd_open(q.pid, 0);
	if (q.pidfd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot watch QEMU");
	(void)close(far.port_fd);
	(void)close(far.console_fd);
	(void)close(far.qmp_fd);
	(void)close(far.words_fd);
	for (int fd = VMM_FD_RAM; fd <= VMM_FD_SCRATCH; fd++)
		(void)close(fd);
	for (uint32_t i = 0; i < orders->n_shown + orders->n_bases; i++)
		(void)close(shown_fd(orders, i));
	*ret = q;
	return 0;
}
