// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/memory/criu_order.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/log.h"
#include "engine/jail/jail_child.h"
#include "engine/jail/memory/memory_agent.h"
#include "engine/jail/memory/memory_image.h"
#include "engine/layer/own_tmpfs.h"
#include "engine/linux/namespaces.h"
#include "engine/linux/spawner_limits.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ARGS_MAX  512
#define WORDS_MAX (64 * 1024)
#define STAGING   "/tmp" /* in its own mount namespace */
#define IMAGES    "/tmp/i"
#define HOOK      "/tmp/hook"
#define GHOST_MAX "64M" /* a file that is open and has no name any more */

extern const unsigned char criu_eyes[]; /* src/criu/eyes.c */
extern const size_t criu_eyes_len;

/* Where its fds are when it starts. */
enum { CONTROL_IN, CONTROL_OUT, WORDS_FD, IMAGES_FD, EYES_FD, AGENT_FD, FD_COUNT };

/* CRIU runs the hook with no fd but 2, so it opens CRIU's own fds. */
static const char hook[] =
	"#!/bin/sh\n"
	"case $CRTOOLS_SCRIPT_ACTION in\n"
	"post-dump|pre-resume)\n"
	"	echo \"$CRTOOLS_SCRIPT_ACTION $CRTOOLS_INIT_PID\" >/proc/$PPID/fd/1 &&\n"
	"	read -r word </proc/$PPID/fd/0 && [ \"$word\" = go ];;\n"
	"esac\n";

/* What all runs share. */
static int eyes_fd = -1, agent_fd = -1;

static const char *find_program(void)
{
	static const char *const places[] = {"/usr/sbin/criu", "/usr/bin/criu",
	                                     "/usr/local/sbin/criu"};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return NULL;
}

static int make_program(const char *name, mode_t mode, int *ret_fd)
{
	*ret_fd = memfd_create(name, MFD_CLOEXEC);
	return *ret_fd < 0 || fchmod(*ret_fd, mode) < 0 ? -errno : 0;
}

/* The copy is readable by all: a sandbox's root opens it through /proc/1/exe. */
static int copy_agent(struct guest_host *host)
{
	off_t at = 0;
	struct stat st;
	int r = make_program(MEMORY_AGENT, 0555, &agent_fd);
	auto_free char *bytes = NULL;

	if (r < 0 || fstat(host->agent_fd, &st) < 0)
		return r < 0 ? r : -errno;
	bytes = xcalloc(1, (size_t)st.st_size);
	while (at < st.st_size) {
		ssize_t n = pread(host->agent_fd, bytes + at, (size_t)(st.st_size - at), at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
	}
	r = fd_write_all(agent_fd, bytes, (size_t)st.st_size);
	if (r == 0)
		r = memory_agent_set(host->agent_fd);
	return r < 0 ? r : memory_agent_set(agent_fd);
}

static int make_shared(struct guest_host *host)
{
	int r = 0;

	if (eyes_fd < 0) {
		r = make_program("cloche-eyes", 0500, &eyes_fd);
		if (r == 0)
			r = fd_write_all(eyes_fd, criu_eyes, criu_eyes_len);
	}
	if (r == 0 && agent_fd < 0)
		r = copy_agent(host);
	if (r < 0)
		criu_close();
	return r;
}

void criu_close(void)
{
	close_fd(&eyes_fd);
	close_fd(&agent_fd);
}

void criu_open(struct guest_host *host)
{
	if (find_program() && make_shared(host) < 0)
		log_debug("criu.not_prepared", "errno=%d",
		          errno); /* tried again when it is needed */
}

int criu_probe(struct guest_host *host, struct err *err)
{
	int r;

	if (!find_program()) {
		(void)err_set(err, ERR_UNSUPPORTED, ENOENT,
		              "memory can be saved only with CRIU, which this host lacks");
		return err_hint(err, "install the package criu; snapshots of files work without");
	}
	r = make_shared(host);
	return r < 0 ? err_set(err, ERR_CAPACITY, -r, "cannot prepare CRIU") : 0;
}

/* From here on in the child, until the exec. */

struct words { /* its argv */
	char *argv[ARGS_MAX];
	size_t n;
};

static void add(struct words *w, const char *word)
{
	if (w->n < ARGS_MAX - 1)
		w->argv[w->n++] = xstrdup(word);
}

/* Mounts that CRIU makes itself: a fresh proc, its /sys, terminals and shared memory. */
static bool is_made_by_criu(const char *place)
{
	static const char *const places[] = {"/", "/proc", "/proc/sys", "/dev/pts", "/dev/shm"};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (strcmp(place, places[i]) == 0)
			return true;
	return false;
}

static const char *find_source(const char *root, const char *place, char ret[256])
{
	/* CRIU sets a mount's flags as they were saved and cannot remove any: covers never had
	 * nodev. */
	const bool is_cover = strcmp(root, "/" OWN_TMPFS_EMPTY_FILE) == 0 ||
	                      strcmp(root, "/" OWN_TMPFS_EMPTY_DIR) == 0;

	if (strcmp(place, "/usr") == 0)
		return STAGING "/u";
	(void)snprintf(ret, 256, STAGING "/%c%s",
	               is_cover || strcmp(place, "/dev") == 0 ? 's' : 'q', root);
	return ret;
}

static int add_mounts(struct words *w, const struct criu_spec *spec)
{
	auto_free char *text = xstrdup(spec->mounts);
	char *line, *rest = text, root[128], place[128], source[256], word[512];

	while ((line = strsep(&rest, "\n"))) {
		if (!*line)
			continue;
		if (sscanf(line, "%127s %127s", root, place) != 2)
			return -EPROTO;
		if (is_made_by_criu(place))
			continue;
		(void)snprintf(word, sizeof(word), "mnt[%s]:%s", place,
		               spec->is_restore ? find_source(root, place, source) : place);
		add(w, "--external");
		add(w, word);
	}
	return w->n < ARGS_MAX - 1 ? 0 : -E2BIG;
}

/* CRIU finds the files that a program watches (inotify) by searching these directories, in this
 * order, since an overlay has no file handles. It does so only if something is watched. */
static const char *const watched[] = {
	"/home", "/root", "/tmp", "/srv", "/mnt", "/app", "/workspace",
};

static int make_words(struct words *w, const struct criu_spec *spec)
{
	static const char *const both[] = {"-v1",
	                                   "--manage-cgroups=ignore",
	                                   "--file-locks",
	                                   "--ghost-limit",
	                                   GHOST_MAX,
	                                   "--action-script",
	                                   HOOK};
	char word[64];

	add(w, "criu");
	add(w, spec->is_restore ? "restore" : "dump");
	for (size_t i = 0; i < ARRAY_SIZE(both); i++)
		add(w, both[i]);
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++) {
		add(w, "--irmap-scan-path");
		add(w, watched[i]);
	}
	if (spec->is_restore || spec->closes_connections)
		add(w, "--tcp-close");
	add(w, "-D");
	add(w, spec->is_restore ? IMAGES : "/proc/self/fd/3");
	add(w, "-W");
	add(w, STAGING);
	if (spec->is_restore) {
		add(w, "--restore-detached");
		add(w, "--restore-sibling"); /* so it is the broker's child */
		add(w, "--root");
		add(w, STAGING "/r");
		add(w, "--inherit-fd");
		(void)snprintf(word, sizeof(word), "fd[%d]:" MEMORY_AGENT, AGENT_FD);
		add(w, word);
	} else {
		add(w, "--leave-running");
		if (spec->closes_connections) /* those that nobody has accepted yet */
			add(w, "--skip-in-flight");
		add(w, "-t");
		(void)snprintf(word, sizeof(word), "%d", (int)spec->pid);
		add(w, word);
	}
	return add_mounts(w, spec);
}

static int attach(int fd, const char *name)
{
	if ((mkdir(name, 0700) < 0 && errno != EEXIST) ||
	    move_mount(fd, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

/* Lays the copy's own images over the saved ones. */
static int lay_images(const struct criu_spec *spec, int copy_fd, struct err *err)
{
	auto_fd int own = -1;
	int r = attach(copy_fd, "m");

	if (r == 0 && (mkdir("o", 0755) < 0 || mkdir("w", 0700) < 0 || mkdir("i", 0755) < 0))
		r = -errno;
	if (r == 0) {
		own = open("o", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = own < 0 ? -errno : 0;
	}
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot lay out the images");
	r = memory_image_adapt(spec->images_fd, own, namespaces_first_id(spec->guest->slot),
	                       NAMESPACES_IDS_EACH, spec->guest->hostname, err);
	if (r < 0)
		return r;
	if (mount("overlay", "i", "overlay", MS_NOSUID | MS_NODEV | MS_NOEXEC,
	          "lowerdir=m,upperdir=o,workdir=w") < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot lay the images together");
	return 0;
}

static int lay_ground(const struct criu_spec *spec, struct err *err)
{
	int r = attach(spec->root_fd, "r");

	if (r == 0 && spec->usr_fd >= 0)
		r = attach(spec->usr_fd, "u");
	if (r == 0)
		r = attach(spec->machine_view_fd, "p");
	if (r == 0)
		return jail_bind_machine_view(err);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot lay the ground of the copy") : 0;
}

/* A mount can be copied only from inside its mount namespace, so this comes before the new one is
 * entered. */
static int copy_mount(int dir_fd, const char *path)
{
	return open_tree(dir_fd, path,
	                 (*path ? 0 : AT_EMPTY_PATH) | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static int enter_place(const struct criu_spec *spec, int run_fd, struct err *err)
{
	auto_fd int file = -1;
	int r;

	if (setns(spec->net_fd, CLONE_NEWNET) < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", STAGING, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64m") < 0 ||
	    chdir(STAGING) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot enter a place of its own");
	r = attach(run_fd, "/run"); /* criu_tmpfs.h */
	if (r == 0) {
		file = open(HOOK, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
		r = file < 0 ? -errno : fd_write_all(file, hook, sizeof(hook) - 1);
	}
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot furnish its place");
	return 0;
}

/* Enters the guest's groups, so that CRIU's children are charged to the guest from the first page
 * on. The cgroup namespace starts at the same group as that of a new guest. `user` is opened
 * before: if systemd has mounted the groups (nsdelegate), an fd that was opened from inside does
 * not allow moving there. */
static int enter_groups(struct guest_host *host, const struct criu_spec *spec, struct err *err)
{
	const char *id = spec->guest->id;
	int fds[CGROUP_TREES_MAX], n;
	auto_fd int agent_group = cgroup_open_agent(&host->cgroups, id);
	int r = cgroup_join_agent(&host->cgroups, id, getpid(), err);

	if (r == 0 && agent_group >= 0 && fd_write_file(agent_group, "cgroup.procs", "0") < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot join the sandbox's group");
	n = r < 0 ? r : cgroup_open_user(&host->cgroups, id, fds, err);
	if (n >= 0)
		r = jail_unshare_cgroup(NULL, err);
	for (int i = 0; i < n && r == 0; i++)
		if (write(fds[i], "0", 1) < 0)
			r = err_set(err, ERR_INTERNAL, errno, "cannot join the sandbox's group");
	return n < 0 ? n : r;
}

static int give_up(const struct criu_spec *spec, struct err *err)
{
	int r = jail_leave_keyring(NULL, err);

	if (r < 0)
		return r;
	(void)setsid();
	if (spec->is_restore && sched_setaffinity(0, sizeof(spec->cpus), &spec->cpus) < 0)
		return err_set(err, ERR_INTERNAL, errno, "sched_setaffinity");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "no_new_privs");
	return 0;
}

/* The program behind /proc/1/exe in a copy. A memory of an older cloche has its own. */
static int choose_agent(const struct criu_spec *spec)
{
	const struct digest own = memory_agent_own();
	struct digest agent;
	int fd, r;

	if (!spec->is_restore)
		return 0;
	r = memory_agent_read(spec->images_fd, &agent);
	if (r < 0 || digest_equal(&agent, &own))
		return r;
	r = memory_agent_extract(spec->images_fd, &agent, &fd);
	if (r == 0)
		agent_fd = fd; /* of this process, which is CRIU's */
	return r;
}

static int place_fds(const struct criu_spec *spec, const int control[2], int words_fd)
{
	const int from[FD_COUNT] = {control[0],      control[1], words_fd,
	                            spec->images_fd, eyes_fd,    agent_fd};
	int high[FD_COUNT];

	for (int i = 0; i < FD_COUNT; i++) {
		high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FD_COUNT);
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < FD_COUNT; i++)
		if (dup2(high[i], i) < 0)
			return -errno;
	return close_range(FD_COUNT, ~0U, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

static int remove_images(int dir_fd)
{
	auto_dir struct dir_reader dir;
	const char *name;
	int r = dir_open(&dir, dir_fd, ".");

	while (r == 0 && (name = dir_next(&dir))) {
		const char *dot = strrchr(name, '.');

		if (dot && strcmp(dot, ".img") == 0 && unlinkat(dir_fd, name, 0) < 0)
			r = -errno;
	}
	return r < 0 ? r : dir.error;
}

static int prepare(struct guest_host *host, const struct criu_spec *spec, struct err *err)
{
	auto_fd int run_fd = copy_mount(host->criu_tmpfs.fd, "");
	auto_fd int images_fd = copy_mount(spec->images_fd, "");
	int r = 0;

	if (run_fd < 0 || images_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot copy a mount");
	if (!spec->is_restore)
		r = remove_images(spec->images_fd);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot remove the images before");
	r = enter_place(spec, run_fd, err);
	if (r == 0 && spec->is_restore)
		r = lay_images(spec, images_fd, err);
	if (r == 0 && spec->is_restore)
		r = lay_ground(spec, err);
	if (r == 0 && spec->is_restore)
		r = enter_groups(host, spec, err);
	return r < 0 ? r : give_up(spec, err);
}

void criu_run(struct guest_host *host, const struct criu_spec *spec, const int control[2],
              int words_fd)
{
	char whose[48];
	char *const env[] = {unconst("PATH=/usr/sbin:/usr/bin:/sbin:/bin"),
	                     unconst("LD_PRELOAD=/proc/self/fd/4"), whose, NULL};
	struct words w = {0};
	struct err err = {0};
	sigset_t none;
	int r = make_shared(host); /* CRIU may have been installed since the starter was made */

	if (r == 0)
		r = prepare(host, spec, &err);
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (spec->is_restore) {
		spawner_limits_lower(host->sandboxes_max); /* as of any jail */
		(void)snprintf(whose, sizeof(whose), "CLOCHE_OWNER=%u",
		               namespaces_owner_id(spec->guest->slot));
	} else {
		(void)snprintf(whose, sizeof(whose), "CLOCHE_ROOT=%d", (int)spec->pid);
	}
	if (r == 0)
		r = make_words(&w, spec);
	if (r == 0 && choose_agent(spec) < 0)
		r = err_set(&err, ERR_CONFLICT, ENOEXEC, "its agent's program is not there");
	if (r == 0)
		r = place_fds(spec, control, words_fd);
	if (r == 0)
		(void)execve(find_program(), w.argv, env);
	(void)dprintf(words_fd, "Error (cloche): %s (errno %d)\n", err.message,
	              err.errnum ? err.errnum : errno);
	_exit(1);
}

int criu_start(struct guest_host *host, const struct criu_spec *spec, struct criu *ret,
               struct err *err)
{
	int down[2], up[2], r = criu_probe(host, err);

	if (r < 0)
		return r;
	criu_init(ret);
	if (pipe2(down, O_CLOEXEC) < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a pipe");
	ret->down_fd = down[1];
	if (pipe2(up, O_CLOEXEC) < 0) {
		r = -errno;
	} else {
		ret->up_fd = up[0];
		ret->words_fd = memfd_create("criu-words", MFD_CLOEXEC);
		r = ret->words_fd < 0
		            ? -errno
		            : criu_order_send(host, spec, (const int[]){down[0], up[1]}, ret);
		(void)close(up[1]);
	}
	(void)close(down[0]);
	if (r == 0)
		return 0;
	criu_done(ret);
	return err_set(err, ERR_CAPACITY, -r, "cannot start CRIU");
}

void criu_init(struct criu *c)
{
	*c = (struct criu){.pidfd = -1, .up_fd = -1, .down_fd = -1, .words_fd = -1};
}

void criu_done(struct criu *c)
{
	criu_hang_up(c);
	close_fd(&c->pidfd);
	close_fd(&c->words_fd);
}

void criu_hang_up(struct criu *c)
{
	close_fd(&c->up_fd);
	close_fd(&c->down_fd);
}

int criu_hear(const struct criu *c, pid_t *ret_pid)
{
	char text[64];
	int pid;
	ssize_t n = read(c->up_fd, text, sizeof(text) - 1);

	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	text[n] = '\0';
	*ret_pid = sscanf(text, "%*s %d", &pid) == 1 ? pid : 0;
	return 0;
}

int criu_let_go_on(const struct criu *c)
{
	return fd_write_all(c->down_fd, "go\n", 3);
}

/* CRIU's first error message, except for those that it always prints: the later ones follow from
 * it. */
static void find_words(char *text, char ret[160])
{
	char *line, *rest = text;

	ret[0] = '\0';
	while ((line = strsep(&rest, "\n"))) {
		const char *colon = strstr(line, "): ");

		if (ret[0] || !strstr(line, "Error") || strstr(line, "exited, status") ||
		    strstr(line, "rlimit: Can't setup RLIMIT_NOFILE"))
			continue;
		(void)snprintf(ret, 160, "%.159s", colon ? colon + 3 : line);
	}
	for (char *p = ret; *p; p++)
		if (*p < ' ' || *p > '~' || *p == '\'')
			*p = '?';
}

static void explain_kill(int signal, bool is_restore, struct err *ret)
{
	(void)err_set(ret, ERR_UNAVAILABLE, 0,
	              "CRIU was killed (signal %d) before the memory was %s", signal,
	              is_restore ? "restored" : "saved");
	(void)err_hint(ret, is_restore ? "try again" : "the sandbox goes on: try again");
}

/* Whether CRIU's message means a temporary failure: the next try will not meet it. */
static bool is_of_the_moment(const char *text)
{
	const char *at = strstr(text, "Unix socket ");

	return at && strstr(at, " not found\n");
}

bool criu_explain(int words_fd, int wait_status, bool is_restore, struct err *ret)
{
	auto_free char *text = xcalloc(1, WORDS_MAX + 1);
	ssize_t n = pread(words_fd, text, WORDS_MAX, 0);
	char words[160];

	text[MAX(n, 0)] = '\0';
	log_debug("criu.failed", "wait_status=0x%x words='%s'", (unsigned)wait_status, text);
	if (WIFSIGNALED(wait_status)) {
		explain_kill(WTERMSIG(wait_status), is_restore, ret);
		return false;
	}
	if (strstr(text, "Connected TCP socket") || strstr(text, "In-flight connection")) {
		(void)err_set(
			ret, ERR_CONFLICT, EISCONN,
			"a program in the sandbox has a connection open, which cannot be saved");
		(void)err_hint(ret, "let it be closed with on_connection: close");
		return false;
	}
	if (strstr(text, "Can't dump that handle")) {
		(void)err_set(ret, ERR_CONFLICT, 0,
		              "a program in the sandbox watches (inotify) a file, or a directory "
		              "that is not found again, which cannot be saved");
		(void)err_hint(ret, "directories below /home, /root, /tmp, /srv, /mnt, /app and "
		                    "/workspace can be watched; or do it with memory: false");
		return false;
	}
	if (!is_restore && strstr(text, ": No space left on device\n")) {
		(void)err_set(ret, ERR_HOST_DISK_FULL, ENOSPC,
		              "the host's disk has no room for the memory");
		return false;
	}
	if (!is_restore && is_of_the_moment(text)) {
		(void)err_set(ret, ERR_UNAVAILABLE, 0,
		              "a socket in the sandbox was closed while its memory was saved");
		(void)err_hint(ret, "the sandbox goes on: try again");
		return true;
	}
	find_words(text, words);
	(void)err_set(ret, ERR_INTERNAL, 0, "CRIU could not %s it: '%s'",
	              is_restore ? "restore" : "save", words);
	return false;
}
