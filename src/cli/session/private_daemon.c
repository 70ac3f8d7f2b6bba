// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: between us and the daemon stands a keeper.
 *
 *	cloche run --- keeper --- cloche serve --rm
 *
 * The keeper waits until it is told to stop, or we die, or the daemon does; it then stops the
 * daemon, waits for its end, and becomes the rm that removes the directory. So nothing is left even
 * when `run` is killed. A daemon that was killed itself has left its sandbox running: another one
 * sweeps that up first. Where all three are killed at once, the next `cloche run` finds what they
 * left (leftover.h). The keeper has a session of its own: Ctrl-C at our terminal reaches only us.
 *
 * The directories are the daemon's own: those of a system-wide one may hold sandboxes that wait to
 * be adopted, and are not ours to open. Its log lies beside them, and holds the reason if it does
 * not come up.
 */
#include "cli/session/private_daemon.h"

#include "base/fd.h"
#include "cli/session/leftover.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define READY_SLICE_MS 100 /* how soon a signal is noticed while the daemon starts */
#define LOG_TAIL       2000

struct private_daemon {
	char *dir; /* all of it is under here */
	char *url;
	pid_t keeper;
	int ready_fd;
	int log_fd; /* outlives the directory: it holds the reason of a failed start */
};

const char *private_daemon_url(const struct private_daemon *h)
{
	return h->url;
}

void private_daemon_stop(struct private_daemon *h)
{
	if (!h)
		return;
	if (h->keeper > 0) {
		(void)kill(h->keeper, SIGTERM);
		while (waitpid(h->keeper, NULL, 0) < 0 && errno == EINTR)
			continue;
	} else if (h->dir) {
		(void)rmdir(h->dir);
	}
	auto_closep(&h->ready_fd);
	auto_closep(&h->log_fd);
	free(h->dir);
	free(h->url);
	free(h);
}

struct daemon {
	const char *const *argv;
	const char *const *sweep_argv; /* the same, to remove what it left */
	const char *dir;
	int log_fd, ready_fd;
};

/* Here and below, after fork() in a process with threads: only async-signal-safe calls. */
static void become_daemon(const struct daemon *d, const char *const *argv, pid_t keeper)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != keeper)
		_exit(1);
	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(d->log_fd, STDOUT_FILENO) < 0 ||
	    dup2(d->log_fd, STDERR_FILENO) < 0)
		_exit(1);
	if (argv == d->argv && fcntl(d->ready_fd, F_SETFD, 0) < 0)
		_exit(1);
	(void)execv("/proc/self/exe", (char *const *)unconst(argv));
	_exit(1);
}

/* Until the daemon is gone; gives how it went. Our parent's death may come as several SIGTERMs, one
 * for each of its threads; a second one would make the daemon hurry and leave things behind, so it
 * gets one. */
static int keep(pid_t pid, const sigset_t *signals)
{
	bool is_told = false;
	int status;

	for (;;) {
		int signo = sigwaitinfo(signals, NULL);

		if (signo == SIGTERM && !is_told)
			is_told = kill(pid, SIGTERM) == 0;
		if (signo == SIGCHLD && waitpid(pid, &status, WNOHANG) == pid)
			return status;
	}
}

static void become_keeper(const struct daemon *d, pid_t parent)
{
	/* Not across a mount: what the daemon could not unmount is not deleted into. */
	const char *const rm[] = {"rm", "-rf", "--one-file-system", "--", d->dir, NULL};
	pid_t self = getpid();
	sigset_t signals;
	int status = 0;
	pid_t pid;

	(void)setsid();
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &signals, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(1);
	pid = fork();
	if (pid == 0)
		become_daemon(d, d->argv, self);
	(void)close(d->ready_fd); /* its end is the daemon's */
	if (pid > 0)
		status = keep(pid, &signals);
	if (WIFSIGNALED(status)) {
		pid = fork();
		if (pid == 0)
			become_daemon(d, d->sweep_argv, self);
		if (pid > 0)
			(void)keep(pid, &signals);
	}
	(void)execv("/bin/rm", (char *const *)unconst(rm));
	_exit(1);
}

static int spawn(struct private_daemon *h, struct err *err)
{
	auto_free char *run = xasprintf("%s/run", h->dir);
	auto_free char *data = xasprintf("%s/data", h->dir);
	auto_free char *log = xasprintf("%s/log", h->dir);
	char ready[16];
	const char *const argv[] = {"cloche",    "serve",      "--rm", "--listen",
	                            "none",      "--run",      run,    "--data",
	                            data,        "--ready-fd", ready,  "--config",
	                            "/dev/null", "--pool-max", "0",    NULL};
	const char *const sweep[] = {"cloche", "serve",    "--sweep",   "--listen",
	                             "none",   "--run",    run,         "--data",
	                             data,     "--config", "/dev/null", NULL};
	struct daemon d = {.argv = argv, .sweep_argv = sweep, .dir = h->dir};
	pid_t parent = getpid();
	int pipe_fds[2];

	d.log_fd = h->log_fd = open(log, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (h->log_fd < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot prepare a daemon in %s", h->dir);
	h->ready_fd = pipe_fds[0];
	d.ready_fd = pipe_fds[1];
	(void)snprintf(ready, sizeof(ready), "%d", d.ready_fd);
	h->keeper = fork();
	if (h->keeper == 0)
		become_keeper(&d, parent);
	(void)close(pipe_fds[1]);
	if (h->keeper < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot start a daemon");
	return 0;
}

/* The reason that the daemon gave is in plain words; the events before it are for programs. */
static void find_reason(char *log, char *ret, size_t size)
{
	char *rest = log;
	char *line;

	ret[0] = '\0';
	while ((line = strsep(&rest, "\n")))
		if (*line && *line != '{' && *line != ' ')
			(void)snprintf(ret, size, "%s", line);
}

static int report_failure(const struct private_daemon *h, struct err *err)
{
	char log[LOG_TAIL + 1], reason[256];
	off_t end = lseek(h->log_fd, 0, SEEK_END);
	ssize_t n = pread(h->log_fd, log, LOG_TAIL, end > LOG_TAIL ? end - LOG_TAIL : 0);

	log[MAX(n, 0)] = '\0';
	find_reason(log, reason, sizeof(reason));
	(void)err_set(err, ERR_UNAVAILABLE, 0, "the daemon for this run did not start: %s",
	              *reason ? reason : "it did not say why");
	return err_hint(err, "'sudo cloche doctor' shows what this host lacks");
}

static int await_ready(struct private_daemon *h, struct interrupt *interrupt, struct err *err)
{
	struct pollfd fd = {h->ready_fd, POLLIN, 0};
	char word[8];

	for (;;) {
		int n = poll(&fd, 1, READY_SLICE_MS);

		if (interrupt && interrupt_signal(interrupt))
			return err_set(err, ERR_UNAVAILABLE, EINTR, "interrupted before it began");
		if (n > 0)
			return read(h->ready_fd, word, sizeof(word)) > 0 ? 0
			                                                 : report_failure(h, err);
	}
}

int private_daemon_start(struct interrupt *interrupt, struct private_daemon **ret, struct err *err)
{
	auto_call(private_daemon_stopp) struct private_daemon *h = xnew0(struct private_daemon);
	char dir[] = LEFTOVER_PREFIX "XXXXXX";
	int r;

	h->ready_fd = h->log_fd = -1;
	if (geteuid() != 0) {
		(void)err_set(err, ERR_UNAVAILABLE, 0,
		              "no daemon is running, and starting one for this run needs root");
		return err_hint(err, "use sudo, or start a daemon with 'sudo cloche serve' and set "
		                     "CLOCHE_API_KEY");
	}
	leftover_sweep();
	if (!mkdtemp(dir))
		return err_set(err, ERR_INTERNAL, errno, "cannot make a directory in /var/tmp");
	h->dir = xstrdup(dir);
	h->url = xasprintf("unix:%s/run/cloche.sock", dir);
	/* The gateway's user must be able to pass through to its own. */
	if (chmod(dir, 0711) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot change the mode of %s", dir);
	r = spawn(h, err);
	if (r == 0)
		r = await_ready(h, interrupt, err);
	if (r < 0)
		return r;
	*ret = take_ptr(h);
	return 0;
}
