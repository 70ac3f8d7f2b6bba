// SPDX-License-Identifier: Apache-2.0
#include "daemon/child.h"

#include "base/fd.h"
#include "base/process/slice.h"
#include "broker/broker.h"
#include "daemon/confine/confine.h"
#include "daemon/watchdog.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* Priorities of the parts that need one. A step of nice is 5/4 of weight. */
static const struct priority {
	const char *part;
	int nice;
	const char *autogroup; /* the same, as the kernel wants it written */
	uint64_t slice_ns;     /* 0: the kernel's */
} priorities[] = {
	{"gateway", -10, "-10", SLICE_NS}, /* every call passes it twice, and each time is short */
	{"wall", -5, "-5", 0},
	{"dialer", -5, "-5", 0},
	{"member", -5, "-5", 0}, /* a beat that is late fences the node */
	/* The broker handles floods of creates, and calls to running sandboxes must not wait for
         * those. */
	{"broker", 0, "0", 0},
};

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void close_all_but(const int *keep, size_t n)
{
	int sorted[SITE_LISTENERS_MAX + 8];
	unsigned next = STDERR_FILENO + 1;

	n = MIN(n, ARRAY_SIZE(sorted));
	memcpy(sorted, keep, n * sizeof(*keep));
	qsort(sorted, n, sizeof(*sorted), compare_fds);
	for (size_t i = 0; i < n; i++) {
		if (sorted[i] < (int)next)
			continue;
		if ((unsigned)sorted[i] > next)
			(void)close_range(next, (unsigned)sorted[i] - 1, 0);
		next = (unsigned)sorted[i] + 1;
	}
	(void)close_range(next, UINT_MAX, 0);
}

static void on_unwanted(int signo)
{
	(void)signo;
}

/* Uses an empty handler, not SIG_IGN: exec would pass that on into every sandbox, whose programs
 * would then ignore Ctrl-C. */
void child_disregard(int signo)
{
	const struct sigaction action = {.sa_handler = on_unwanted, .sa_flags = SA_RESTART};

	(void)sigaction(signo, &action, NULL);
}

static void reset_signals(void)
{
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	child_disregard(SIGPIPE);
	/* A terminal's Ctrl-C goes to the whole group; only the launcher acts on it. */
	child_disregard(SIGINT);
	child_disregard(SIGHUP);
}

/* All clients wait for some of the daemon's parts, so those have a higher priority than sandboxes.
 * Their children do not inherit it. If the operator gave the daemon another priority, that stays.
 *
 * With autogroups (sched(7)) a priority only holds within a session, and all sandboxes together
 * weigh as much as one session. So each part is a session, and the session has the priority too.
 * Guests have their own sessions and control groups. */
static void set_priority(const struct priority *p)
{
	struct sched_attr attr = {.size = sizeof(attr),
	                          .sched_policy = SCHED_NORMAL,
	                          .sched_flags = SCHED_FLAG_RESET_ON_FORK,
	                          .sched_nice = p->nice,
	                          .sched_runtime = p->slice_ns};

	if (getpriority(PRIO_PROCESS, 0) != 0)
		return;
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
	if (setsid() > 0)
		(void)!fd_write_file(AT_FDCWD, "/proc/self/autogroup", p->autogroup);
}

void child_begin(const char *name, const struct config *config, const int *keep, size_t n_keep)
{
	auto_free char *title = xasprintf("cloche-%s", name);
	int null_fd;

	reset_signals();
	for (size_t i = 0; i < ARRAY_SIZE(priorities); i++)
		if (strcmp(priorities[i].part, name) == 0)
			set_priority(&priorities[i]);
	(void)!chdir("/");               /* keeps no directory busy */
	(void)prctl(PR_SET_NAME, title); /* what ps -o comm shows: 15 letters */
	close_all_but(keep, n_keep);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd >= 0) {
		(void)dup2(null_fd, STDIN_FILENO);
		(void)dup2(null_fd, STDOUT_FILENO);
		(void)close(null_fd);
	}
	log_init(name, config->log_level);
}

void child_report(int control_fd, const struct err *err)
{
	struct child_report report = {.is_ready = !err};

	if (err)
		report.err = *err;
	(void)!fd_send(control_fd, &report, sizeof(report), NULL, 0);
}

struct beat { /* lives as long as the process */
	const int *control_fd;
	uint64_t period_us;
	struct loop_timer *timer;
};

static void on_beat(struct loop *loop, void *arg)
{
	struct beat *b = arg;

	(void)loop;
	/* If the launcher does not read, many beats wait already; one more is not needed. */
	if (*b->control_fd >= 0)
		(void)!send(*b->control_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	loop_timer_set_in(b->timer, b->period_us);
}

void child_beat(struct loop *loop, const int *control_fd, const struct config *config)
{
	static struct beat beat;

	if (config->watchdog_ms == 0)
		return;
	beat = (struct beat){.control_fd = control_fd,
	                     .period_us = watchdog_period_us(config->watchdog_ms),
	                     .timer = loop_timer_new(loop, on_beat, &beat)};
	loop_timer_set_in(beat.timer, 0);
}

static void broker_on_over(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static int broker_run(const struct broker_config *config, const struct config *c, int control_fd)
{
	struct broker *broker;
	struct err err = {0};
	int r = broker_new(config, broker_on_over, NULL, &broker, &err);

	if (r < 0) {
		child_report(control_fd, &err);
		return r;
	}
	r = confine(&(struct confine_plan){.part = CONFINE_BROKER}, &err);
	if (r < 0) {
		child_report(control_fd, &err);
		return r;
	}
	child_report(control_fd, NULL);
	child_beat(config->loop, &control_fd, c);
	loop_tell_long_turns(config->loop);
	r = loop_run(config->loop);
	broker_free(broker);
	return r;
}

int broker_main(const struct site *site, int gateway_fd, int control_fd)
{
	const struct config *c = site->config;
	const int keep[] = {gateway_fd, control_fd, site->lock_fd, site->agent_fd, site->vmm_fd};
	/* A spare that makes room for a sandbox may not be gone yet when the sandbox is made. */
	const uint32_t sandboxes_max =
		MIN(c->sandboxes_max + c->pool_max + c->pool_reserve, BROKER_SLOTS);
	struct broker_config config = {
		.host = {.data_dir = c->data_dir,
	                 .run_dir = c->run_dir,
	                 .agent_fd = site->agent_fd,
	                 .vmm_fd = site->vmm_fd,
	                 .kernels_dir = site->kernels_dir,
	                 .warm_modules = c->has_no_zygotes ? NULL : c->warm_modules,
	                 .is_plain_storage = c->is_plain_storage,
	                 .favors_moves = !c->has_no_favordynmods,
	                 .sandboxes_max = sandboxes_max,
	                 .disk_reserve = c->disk_reserve,
	                 .disk_ahead = c->disk_ahead,
	                 .disk_share = c->quota_disk_share,
	                 .is_vm_emulated = c->is_vm_emulated,
	                 .vm_boot_us = c->vm_boot_ms * 1000},
		.gateway_fd = gateway_fd,
		.max_limits = c->max_limits,
		.sandboxes_max = sandboxes_max,
		.first_slot = (uint32_t)((c->uid_base - BROKER_UID_BASE) / BROKER_UIDS),
		.n_slots = c->uid_ranges,
	};
	struct err err = {0};
	int r;

	child_begin("broker", c, keep, ARRAY_SIZE(keep));
	child_disregard(SIGTERM); /* it goes when the gateway has gone, not before */
	r = loop_new(&config.loop, &err);
	if (r < 0) {
		child_report(control_fd, &err);
		return CHILD_FAILED;
	}
	r = broker_run(&config, c, control_fd); /* the loop ends with the process */
	return r < 0 ? CHILD_FAILED : CHILD_OK;
}
