// SPDX-License-Identifier: Apache-2.0
/*
 * Starts the agent, or under the name `sudo` the program that asks it for root.
 *
 * Life as pid 1: the kernel keeps every signal from inside away from it, since it handles none; it
 * cannot be traced or read, since it is not dumpable; and it reaps whatever dies without a parent.
 * As an ordinary process (tests) it is a subreaper instead. Started by a kernel as /init it is a
 * vm's, and puts the machine together first (init.h).
 */
#include "agent/agent.h"
#include "agent/host/host_link.h"
#include "agent/host/quiet.h"
#include "agent/process/channel.h"
#include "agent/process/forks.h"
#include "agent/process/standby.h"
#include "agent/sudo/sudo.h"
#include "agent/sudo/sudo_socket.h"
#include "agent/vm/init.h"
#include "agent/vm/serial.h"
#include "base/log.h"
#include "base/process/slice.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if defined(__SANITIZE_ADDRESS__)
/* A sanitized agent keeps what it frees, which counts against its group; nobody gives it options.
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0:quarantine_size_mb=4:thread_local_quarantine_size_kb=64";
}
#endif

static void agent_on_children(struct loop *loop, void *arg)
{
	struct agent *a = arg;
	struct rusage usage;
	int status;
	pid_t pid;

	(void)loop;
	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
		if (!standby_on_reaped(a->standby, pid) &&
		    !channel_on_reaped(a, pid, status, &usage) && a->sudo_socket)
			sudo_socket_on_reaped(a->sudo_socket, pid, status);
}

/* 0, 1 and 2 must be something, or a pipe would be born there. */
static int open_null(struct agent *a, struct err *err)
{
	for (;;) {
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (fd < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot open /dev/null");
		if (fd > STDERR_FILENO) {
			a->null_fd = fd;
			return 0;
		}
	}
}

/* Whatever we were started with: children then need to undo one thing only. */
static int reset_signals(void)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL};

	for (int i = 1; i < NSIG; i++)
		(void)sigaction(i, &plain, NULL); /* KILL, STOP and libc's own refuse */
	return signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -errno : 0;
}

static int shut_in(struct agent *a, struct err *err)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot become undumpable");
	if (!a->settings.is_init && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot become a subreaper");
	if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mark the fds");
	if (clearenv() != 0 || reset_signals() < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot clear environment and signals");
	return open_null(a, err);
}

static void kick(struct agent *a)
{
	host_link_kick(a->host_link);
}

static void introduce(struct agent *a, const char *tag)
{
	if (a->sudo_socket)
		sudo_socket_introduce(a->sudo_socket, tag);
}

static int serve(struct agent *a, struct err *err)
{
	int r = loop_new(&a->loop, err);

	if (r < 0)
		return r;
	a->calls = (struct agent_calls){kick, introduce};
	list_init(&a->channels);
	list_init(&a->ready);
	a->passed_fd = -1;
	r = loop_signal_add(a->loop, SIGCHLD, agent_on_children, a);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch children");
	a->forks = forks_new(a);
	a->standby = standby_new(a);
	r = host_link_new(a, &a->host_link, err);
	if (r >= 0 && a->settings.port_fd >= 0)
		r = serial_new(a, err);
	if (r < 0)
		return r;
	if (a->settings.is_init) {
		r = sudo_socket_new(a, &a->sudo_socket, err);
		if (r >= 0 && !a->transport)
			r = quiet_new(a, &a->quiet, err);
		if (r < 0)
			return r;
	}
	if (a->settings.ready_fd >= 0) {
		(void)!write(a->settings.ready_fd, "1", 1);
		(void)close(a->settings.ready_fd);
	}
	r = loop_run(a->loop);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "the event loop failed") : 0;
}

static int run(struct agent *a, bool is_vm, struct err *err)
{
	int r = is_vm ? init_boot(&a->settings, err) : settings_read(&a->settings, err);

	if (r >= 0)
		r = shut_in(a, err);
	if (r >= 0)
		r = serve(a, err);
	if (r < 0)
		log_error("agent.failed", "message='%s'", err->message);
	return r;
}

int main(int argc, char *argv[])
{
	const char *name = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const bool is_vm = getpid() == 1 && argc > 0 && strcmp(argv[0], "/init") == 0;
	struct agent a = {0};
	struct err err;
	int r;

	name = name ? name + 1 : argc > 0 ? argv[0] : "";
	if (strcmp(name, "sudo") == 0)
		return sudo_main(argc, argv);
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		(void)printf("cloche-agent %s\n", CLOCHE_VERSION);
		return 0;
	}
	log_init("agent", LOG_WARN);
	slice_shorten();
	r = run(&a, is_vm, &err);
	if (is_vm)
		init_power_off(&a.settings, r < 0 ? err.message : NULL);
	return r < 0 ? 1 : 0;
}
