// SPDX-License-Identifier: Apache-2.0
/*
 * The lock makes two brokers on the same sandboxes impossible: the launcher takes it and the broker
 * inherits it, so it is free only when both are gone, however they ended. The file is removed under
 * the lock, so a process that waited for it checks that its file still has the name.
 */
#include "daemon/site.h"

#include "backup/restore.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/units.h"
#include "daemon/daemon.h"

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>

#define FALLBACK_ID 64000 /* Debian leaves 60000 to 64999 to be picked by packages */
#define KEY_HINT    "root needs no key: make another with `cloche key create`"
#define LOCK_WAIT_US                                                                               \
	(15 * SECOND_US) /* for the processes of a launcher that was killed                        \
	                  */

void site_init(struct site *s, const struct config *config)
{
	*s = (struct site){
		.config = config, .lock_fd = -1, .agent_fd = -1, .vmm_fd = -1, .member_fd = -1};
}

int daemon_find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid, struct err *err)
{
	const struct passwd *pw = getpwnam(name);

	if (pw && pw->pw_uid == 0)
		return err_field(err, "user", "the gateway must not be root");
	if (!pw && strcmp(name, "cloche") != 0)
		return err_field(err, "user", "there is no user '%s'", name);
	*ret_uid = pw ? pw->pw_uid : FALLBACK_ID;
	*ret_gid = pw ? pw->pw_gid : FALLBACK_ID;
	return 0;
}

static int find_user(struct site *s, struct err *err)
{
	int r = daemon_find_user(s->config->user, &s->uid, &s->gid, err);

	if (r == 0 && !getpwnam(s->config->user))
		log_warn("daemon.no_user", "user=cloche uid=%d hint='useradd --system cloche'",
		         FALLBACK_ID);
	return r;
}

/* A half restored directory must not be used as if it were complete. */
static int check_restored(const struct config *c, struct err *err)
{
	auto_free char *mark = xasprintf("%s/" RESTORE_MARK, c->data_dir);

	if (access(mark, F_OK) < 0)
		return 0;
	(void)err_set(err, ERR_CONFLICT, 0, "a restore into '%s' was not finished", c->data_dir);
	return err_hint(err, "empty the directory and restore again");
}

static bool is_empty_dir(const char *path)
{
	auto_dir struct dir_reader names = {.fd = -1};

	return dir_open(&names, AT_FDCWD, path) < 0 || !dir_next(&names);
}

/*
 * If there is no database, an empty one is made. That is right at a first start; the gateway's
 * other files show whether it was lost instead. An empty file is damage, and a missing database
 * would end running sandboxes. An operator who has moved it away on purpose is told what that
 * means.
 */
static int check_database(const struct config *c, struct err *err)
{
	auto_free char *path = xasprintf("%s/gateway/state.db", c->data_dir);
	auto_free char *other = xasprintf("%s/gateway/jots", c->data_dir);
	auto_free char *sandboxes = xasprintf("%s/sandboxes", c->run_dir);
	struct stat st;
	bool is_gone = lstat(path, &st) < 0;

	if ((!is_gone && st.st_size > 0) || access(other, F_OK) < 0)
		return 0;
	if (!is_gone) {
		(void)err_set(err, ERR_CONFLICT, 0, "the database '%s' is damaged: it is empty",
		              path);
		return err_hint(err, "restore it from a backup, or remove it to start with a new "
		                     "one");
	}
	if (!is_empty_dir(sandboxes) && !c->is_sweep) {
		(void)err_set(err, ERR_CONFLICT, 0,
		              "sandboxes run, and the database is new: there is no '%s'", path);
		return err_hint(err, "put the old one back, or end them with `cloche serve "
		                     "--sweep`");
	}
	log_warn("daemon.database_new",
	         "file='%s' lost='keys, sandboxes, snapshots, volumes and templates that the old "
	         "one knew; their files stay' hint='put the old one back if that is not wanted'",
	         path);
	return 0;
}

static int make_parents(const char *path, struct err *err)
{
	auto_free char *part = xstrdup(path);

	for (char *p = strchr(part + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", part);
		*p = '/';
	}
	return 0;
}

/* A directory that somebody else may write to could be replaced while we use it, so it is
 * refused. */
static int make_dir(const char *path, uid_t uid, gid_t gid, mode_t mode, struct err *err)
{
	auto_fd int fd = -1;
	struct stat st;
	bool is_new = mkdir(path, 0700) == 0;

	if (!is_new && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", path);
	if (!is_new && st.st_uid != uid) {
		(void)err_set(err, ERR_CONFLICT, 0, "'%s' belongs to user %u, not %u", path,
		              st.st_uid, uid);
		return err_hint(err, "if it is cloche's: chown -R %u:%u %s", uid, gid, path);
	}
	if ((is_new && fchown(fd, uid, gid) < 0) || fchmod(fd, mode) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot set up '%s'", path);
	return 0;
}

static int make_dirs(struct site *s, struct err *err)
{
	const struct config *c = s->config;
	auto_free char *gateway = xasprintf("%s/gateway", c->data_dir);
	auto_free char *spool = xasprintf("%s/gateway/spool", c->data_dir);
	auto_free char *sandboxes = xasprintf("%s/sandboxes", c->run_dir);
	const struct {
		const char *path;
		uid_t uid;
		gid_t gid;
		mode_t mode;
	} rows[] = {
		{c->data_dir, 0, 0, 0711},     {c->run_dir, 0, 0, 0755},
		{sandboxes, 0, 0, 0700},       {gateway, s->uid, s->gid, 0700},
		{spool, s->uid, s->gid, 0700},
	};
	int r = make_parents(c->data_dir, err);

	if (r == 0)
		r = make_parents(c->run_dir, err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++)
		r = make_dir(rows[i].path, rows[i].uid, rows[i].gid, rows[i].mode, err);
	return r;
}

/* 0: locked; -EWOULDBLOCK: held, and *ret_pid is the pid of its launcher, or 0. */
static int try_lock(const char *path, int *ret_fd, uint64_t *ret_pid)
{
	auto_fd int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	struct stat held, named;
	char text[24];

	*ret_pid = 0;
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int r = -errno;

		if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0)
			(void)!parse_u64(text, INT32_MAX, ret_pid);
		return r;
	}
	if (fstat(fd, &held) < 0 || stat(path, &named) < 0 || held.st_ino != named.st_ino)
		return -EAGAIN; /* removed by its last holder between open() and flock() */
	*ret_fd = take_fd(&fd);
	return 0;
}

static bool is_alive(uint64_t pid)
{
	return pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

static int take_lock(struct site *s, struct err *err)
{
	auto_free char *path = xasprintf("%s/lock", s->config->run_dir);
	uint64_t deadline_us = clock_steady_us() + LOCK_WAIT_US;
	const struct timespec pause = {.tv_nsec = 20000000};
	uint64_t pid;
	char text[24];
	int len, r;

	while ((r = try_lock(path, &s->lock_fd, &pid)) < 0) {
		if (r != -EWOULDBLOCK)
			return err_set(err, ERR_INTERNAL, -r, "cannot lock '%s'", path);
		if (is_alive(pid) || clock_steady_us() > deadline_us) {
			(void)err_set(err, ERR_CONFLICT, 0, "already running, pid %llu",
			              (unsigned long long)pid);
			return -EALREADY;
		}
		(void)nanosleep(&pause, NULL);
	}
	len = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(s->lock_fd, 0) < 0 || pwrite(s->lock_fd, text, (size_t)len, 0) != len)
		return err_set(err, ERR_INTERNAL, errno, "cannot write '%s'", path);
	return 0;
}

/* The directory of this program. */
static int find_self(char *self, size_t size, struct err *err)
{
	ssize_t len = readlink("/proc/self/exe", self, size - 1);
	char *slash;

	if (len < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot tell where this program lies");
	self[len] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	return 0;
}

/* Beside the program: installed together (../libexec/cloche), or in one build directory. */
static int open_beside(const char *name, const char *built, int *ret_fd, struct err *err)
{
	auto_free char *installed = xasprintf("../libexec/cloche/%s", name);
	const char *const places[] = {name, built, installed};
	char self[PATH_MAX];
	int r = find_self(self, sizeof(self), err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		auto_free char *path = xasprintf("%s/%s", self, places[i]);

		*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
		if (*ret_fd >= 0)
			return 0;
	}
	return err_set(err, ERR_UNAVAILABLE, ENOENT, "no %s beside '%s'", name, self);
}

int site_open_agent(int *ret_fd, struct err *err)
{
	return open_beside("cloche-agent", "src/agent/cloche-agent", ret_fd, err);
}

static int open_agent(const struct config *c, int *ret_fd, struct err *err)
{

	if (c->agent) {
		*ret_fd = open(c->agent, O_RDONLY | O_CLOEXEC);
		return *ret_fd >= 0 ? 0
		                    : err_set(err, ERR_INTERNAL, errno,
		                              "cannot open the agent '%s'", c->agent);
	}
	if (site_open_agent(ret_fd, err) == 0)
		return 0;
	return err_hint(err, "name it with --agent PATH");
}

/* The interpreters' drivers. A daemon without them would fail at the first call of code, with an
 * error of python3 or node that names a path inside. */
static int find_kernels(struct site *s, struct err *err)
{
	static const char *const places[] = {"kernels-beside", "../share/cloche/kernels"};
	char self[PATH_MAX];
	int r = find_self(self, sizeof(self), err);

	for (size_t i = 0; r == 0 && !s->kernels_dir && i < ARRAY_SIZE(places); i++) {
		auto_free char *path = xasprintf("%s/%s", self, places[i]);

		s->kernels_dir = realpath(path, NULL);
	}
	if (r < 0 || s->kernels_dir)
		return r;
	(void)err_set(err, ERR_UNAVAILABLE, ENOENT,
	              "there is neither '%s/%s' nor '%s/%s', with the drivers of the interpreters",
	              self, places[0], self, places[1]);
	return err_hint(err, "start cloche where it was built or installed, or copy the folder "
	                     "kernels-beside along with the programs");
}

/* Sealed, so that the program of every sandbox cannot change while the daemon runs. */
static int load_program(const char *name, int file, int *ret_fd, struct err *err)
{
	auto_fd int memfd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;
	off_t at = 0;

	if (memfd < 0 || fstat(file, &st) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot load %s", name);
	while (at < st.st_size)
		if (sendfile(memfd, file, &at, (size_t)(st.st_size - at)) <= 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot load %s", name);
	if (fcntl(memfd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot seal %s", name);
	*ret_fd = take_fd(&memfd);
	return 0;
}

static int load_agent(struct site *s, struct err *err)
{
	auto_fd int file = -1;
	int r = open_agent(s->config, &file, err);

	return r < 0 ? r : load_program("cloche-agent", file, &s->agent_fd, err);
}

/* Without it there are no vms. */
static int load_vmm(struct site *s, struct err *err)
{
	auto_fd int file = -1;
	struct err ignored;

	if (open_beside("cloche-vmm", "src/vmm/cloche-vmm", &file, &ignored) < 0)
		return 0;
	return load_program("cloche-vmm", file, &s->vmm_fd, err);
}

int site_open_member(int *ret_fd, struct err *err)
{
	if (open_beside("cloche-cluster", "src/member/cloche-cluster", ret_fd, err) == 0)
		return 0;
	return err_hint(err, "install it: apt install cloche-cluster; or build with libpq-dev: "
	                     "tools/install-deps, then make");
}

/* A node that is to be in a cluster and cannot must not run as if it were alone. */
static int load_member(struct site *s, struct err *err)
{
	auto_fd int file = -1;
	int r;

	if (!s->config->cluster_postgres)
		return 0;
	r = site_open_member(&file, err);
	return r < 0 ? r : load_program("cloche-cluster", file, &s->member_fd, err);
}

static int add_listener(struct site *s, int fd, bool is_unix, struct err *err)
{
	if (s->n_listeners == SITE_LISTENERS_MAX) {
		(void)close(fd);
		return err_field(err, "listen", "more than %d listeners", SITE_LISTENERS_MAX);
	}
	s->listeners[s->n_listeners++] = (struct site_listener){.fd = fd, .is_unix = is_unix};
	return 0;
}

static int open_listeners(struct site *s, struct err *err)
{
	const struct config *c = s->config;
	int fd, r;

	if (strcmp(c->socket, "none") != 0) {
		r = listen_unix(c->socket, s->gid, &fd, err);
		if (r == 0)
			r = add_listener(s, fd, true, err);
		if (r < 0)
			return r;
	}
	for (char **p = c->listen; *p; p++) {
		/* A sweep serves no clients, and another daemon may have the address by now. */
		if (strcmp(*p, "none") == 0 || c->is_sweep)
			continue;
		r = listen_tcp(*p, &fd, err);
		if (r == 0)
			r = add_listener(s, fd, false, err);
		if (r < 0)
			return r;
	}
	if (s->n_listeners == 0 && !c->is_sweep)
		return err_field(err, "listen", "neither an address nor a socket to listen on");
	return 0;
}

int site_prepare(struct site *s, struct err *err)
{
	int r = find_user(s, err);

	if (r == 0)
		r = find_kernels(s, err);
	if (r == 0)
		r = check_restored(s->config, err);
	if (r == 0)
		r = make_dirs(s, err);
	if (r == 0)
		r = take_lock(s, err);
	if (r == 0)
		r = check_database(s->config, err);
	if (r == 0)
		r = load_agent(s, err);
	if (r == 0)
		r = load_vmm(s, err);
	if (r == 0)
		r = load_member(s, err);
	return r < 0 ? r : open_listeners(s, err);
}

int site_open_key(const struct site *s, int *ret_fd, struct err *err)
{
	auto_free char *path = xasprintf("%s/admin.key", s->config->data_dir);

	struct stat st;

	if (lstat(path, &st) == 0 && st.st_size == 0)
		log_warn("daemon.key_empty", "file='%s' hint='" KEY_HINT "'", path);
	*ret_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (*ret_fd < 0 || fchmod(*ret_fd, 0600) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", path);
	return 0;
}

/* Removes an empty key file: there were keys already, and their owner had moved the file away. */
void site_drop_empty_key(const struct site *s)
{
	auto_free char *path = xasprintf("%s/admin.key", s->config->data_dir);
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
		(void)unlink(path);
}

void site_clear(struct site *s)
{
	auto_free char *lock = xasprintf("%s/lock", s->config->run_dir);
	auto_free char *sandboxes = xasprintf("%s/sandboxes", s->config->run_dir);

	if (s->lock_fd < 0) /* the files may be another daemon's */
		return;
	for (size_t i = 0; i < s->n_listeners; i++)
		if (s->listeners[i].is_unix)
			(void)unlink(s->config->socket);
	(void)rmdir(sandboxes);
	(void)unlink(lock);
	(void)rmdir(s->config->run_dir);
}

void site_done(struct site *s)
{
	for (size_t i = 0; i < s->n_listeners; i++)
		(void)close(s->listeners[i].fd);
	s->n_listeners = 0;
	if (s->agent_fd >= 0)
		(void)close(take_fd(&s->agent_fd));
	if (s->member_fd >= 0)
		(void)close(take_fd(&s->member_fd));
	if (s->vmm_fd >= 0)
		(void)close(take_fd(&s->vmm_fd));
	free(take_ptr(s->kernels_dir));
	free(take_ptr(s->doctor));
	if (s->lock_fd >= 0)
		(void)close(take_fd(&s->lock_fd));
}
