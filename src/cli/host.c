// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: `cloche serve --rm` as a child. It has a session of its own, so that Ctrl-C
 * at our terminal reaches only us, and a death signal, so that it ends and cleans up even when we
 * are killed. Its directories are its own: those of a system-wide daemon may hold sandboxes that
 * wait to be adopted, and are not ours to open. Its log goes to a file beside them, whose end is
 * shown if it does not come up.
 */
#include "cli/host.h"

#include "base/fd.h"
#include "cli/text.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define READY_SLICE_MS 100 /* how soon a signal is noticed while the daemon starts */
#define LOG_TAIL       2000

struct host {
	char *dir; /* all of it is under here */
	char *url;
	pid_t pid;
	int ready_fd;
};

const char *host_url(const struct host *h)
{
	return h->url;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	(void)remove(path);
	return 0;
}

void host_stop(struct host *h)
{
	if (!h)
		return;
	if (h->pid > 0) {
		(void)kill(h->pid, SIGTERM);
		while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	if (h->ready_fd >= 0)
		(void)close(h->ready_fd);
	if (h->dir) /* never across a mount: what the daemon could not unmount is not deleted into
	             */
		(void)nftw(h->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	free(h->dir);
	free(h->url);
	free(h);
}

/* After fork(): only async-signal-safe calls. */
static void become_daemon(const char *const argv[], int log_fd, int ready_fd, pid_t parent)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid();
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(1);
	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
	    dup2(log_fd, STDERR_FILENO) < 0 || fcntl(ready_fd, F_SETFD, 0) < 0)
		_exit(1);
	(void)execv("/proc/self/exe", (char *const *)unconst(argv));
	_exit(1);
}

static int spawn(struct host *h, struct err *err)
{
	auto_free char *run = xasprintf("%s/run", h->dir);
	auto_free char *data = xasprintf("%s/data", h->dir);
	auto_free char *log = xasprintf("%s/log", h->dir);
	auto_fd int log_fd = open(log, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	pid_t parent = getpid();
	char ready[16];
	int pipe_fds[2];

	if (log_fd < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot prepare a daemon in %s", h->dir);
	h->ready_fd = pipe_fds[0];
	(void)snprintf(ready, sizeof(ready), "%d", pipe_fds[1]);
	h->pid = fork();
	if (h->pid == 0) {
		const char *const argv[] = {
			"cloche", "serve", "--rm",     "--listen",  "none",       "--run", run,
			"--data", data,    "--config", "/dev/null", "--ready-fd", ready,   NULL};

		become_daemon(argv, log_fd, pipe_fds[1], parent);
	}
	(void)close(pipe_fds[1]);
	if (h->pid < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot start a daemon");
	return 0;
}

/* It did not come up: the last words of its log are the reason. */
static int report_failure(const struct host *h, struct err *err)
{
	auto_free char *path = xasprintf("%s/log", h->dir);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[LOG_TAIL + 1];
	ssize_t n;

	if (fd >= 0 && lseek(fd, -LOG_TAIL, SEEK_END) < 0)
		(void)lseek(fd, 0, SEEK_SET);
	n = fd < 0 ? 0 : read(fd, text, LOG_TAIL);
	text[MAX(n, 0)] = '\0';
	(void)fprintf(stderr, "%s", text);
	(void)err_set(err, ERR_UNAVAILABLE, 0, "the daemon for this run did not start");
	return err_hint(err, "'sudo cloche doctor' tells what this host lacks");
}

static int await_ready(struct host *h, struct interrupt *interrupt, struct err *err)
{
	struct pollfd fd = {h->ready_fd, POLLIN, 0};
	char word[8];

	for (;;) {
		int n = poll(&fd, 1, READY_SLICE_MS);

		if (interrupt && interrupt_signal(interrupt))
			return err_set(err, ERR_UNAVAILABLE, EINTR, "stopped before it began");
		if (n > 0)
			return read(h->ready_fd, word, sizeof(word)) > 0 ? 0
			                                                 : report_failure(h, err);
	}
}

int host_start(struct interrupt *interrupt, struct host **ret, struct err *err)
{
	auto_call(host_stopp) struct host *h = xnew0(struct host);
	char dir[] = "/var/tmp/cloche-run.XXXXXX";
	int r;

	h->ready_fd = -1;
	if (geteuid() != 0) {
		(void)err_set(err, ERR_UNAVAILABLE, 0,
		              "no daemon is running, and hosting one for this run needs root");
		return err_hint(err, "use sudo, or start a daemon with 'sudo cloche serve' and set "
		                     "CLOCHE_API_KEY");
	}
	if (!mkdtemp(dir))
		return err_set(err, ERR_INTERNAL, errno, "cannot make a directory in /var/tmp");
	h->dir = xstrdup(dir);
	h->url = xasprintf("unix:%s/run/cloche.sock", dir);
	/* The gateway's user must be able to pass through to its own. */
	if (chmod(dir, 0711) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open up %s", dir);
	r = spawn(h, err);
	if (r == 0)
		r = await_ready(h, interrupt, err);
	if (r < 0)
		return r;
	*ret = take_ptr(h);
	return 0;
}
