// SPDX-License-Identifier: Apache-2.0
/*
 * The output of mkfs.erofs is not trusted: it may have file names that the sandbox chose. It is
 * cut, and only printable characters go into an error. The exit status tells whether there is an
 * image, and we hash the image ourselves.
 */
#include "engine/template/image_build.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/log.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/guest/spawner.h"
#include "engine/layer/own_tmpfs.h"
#include "engine/linux/dir_tree.h"
#include "engine/linux/namespaces.h"
#include "engine/template/image_build_child.h"
#include "engine/template/image_build_finish.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define GROUP          "seal" /* among the sandboxes' cgroups; no id looks like it */
#define LAYER_PATH_MAX (ID_SIZE + sizeof("/" DISK_SNAPSHOT_FILES))
#define SLOT           (NAMESPACES_SLOTS_MAX - 1U) /* of no sandbox: the broker has fewer */
#define RUNNING_MAX    2
#define WAITING_MAX    32
#define PROGRESS_US    250000U
#define WORDS_MAX      2048
#define WORD_SIZE      200
#define FREE_LEAST     (UINT64_C(64) << 20) /* above the reserve */
#define SLACK          (UINT64_C(1) << 20)  /* what a last write may have lacked */

enum image_build_state { IMAGE_BUILD_WAITING, IMAGE_BUILD_PACKING, IMAGE_BUILD_FINISHING };

struct image_build {
	struct guest_host *host;
	struct list link; /* in builds, in the order in which they were asked for */
	enum image_build_state state;
	char name[ID_SIZE];
	char layer[LAYER_PATH_MAX]; /* the snapshot's name, or the sandbox's id */
	struct digest base;
	struct digest may_need[IMAGE_FILES_MAX]; /* base, and the images that it needs */
	size_t n_may_need;                       /* 0: the image is made of files alone */
	struct image_build_spec spec;
	image_build_fn fn;
	void *arg;
	int out_fd; /* DATA/templates/NAME */
	int status_fd, words_fd, result_fd;
	struct loop_child *child;
	struct loop_timer *timer;
	uint64_t bytes_max; /* the spec's, or what the disk has above its reserve */
	bool is_cancelled, lacks_room;
};

/* What all builds together may use of the host. */
static const struct guest_limits limits = {
	.memory_bytes = UINT64_C(1) << 30,
	.cpu_milli = 2000,
	.pids = 16,
};

static struct list builds = LIST_INIT(builds);

static void start_next(struct guest_host *host);

static void on_layer_dropped(struct loop *loop, int wait_status, void *arg)
{
	(void)loop;
	(void)arg;
	if (wait_status != 0) /* the next start comes back to it */
		log_warn("seal.not_removed", "wait_status=0x%x", (unsigned)wait_status);
}

/* The child that removes it goes on by itself. */
static void drop_layer(struct guest_host *host, const char *name)
{
	struct loop_child *child;
	int pidfd = -1;

	if (id_is_valid(name, "seal") &&
	    storage_remove(&host->storage, name, /* is_again= */ false, &pidfd) == 1)
		(void)!loop_child_take(host->loop, pidfd, on_layer_dropped, NULL, &child);
}

static void image_build_free(struct loop *loop, void *arg)
{
	struct image_build *s = arg;

	(void)loop;
	close_fd(&s->out_fd);
	close_fd(&s->status_fd);
	close_fd(&s->words_fd);
	close_fd(&s->result_fd);
	free(s);
}

/* Ends a build; called once. */
static void end(struct image_build *s, const struct image_build_result *result,
                const struct err *err)
{
	list_remove(&s->link);
	loop_timer_free(s->timer);
	drop_layer(s->host, s->layer);
	if (dir_tree_remove(s->host->images.templates_fd, s->name) < 0)
		log_debug("seal.leftover", "name=%s", s->name);
	if (!err)
		log_info("seal.done", "bytes=%llu bases=%u", (unsigned long long)result->bytes,
		         result->bases.n);
	s->fn(result, err, s->arg);
	loop_defer(s->host->loop, image_build_free, s);
	start_next(s->host);
}

static void fail(struct image_build *s, const struct err *err)
{
	log_warn("seal.failed", "error='%s'", err->message);
	end(s, NULL, err);
}

static int cancelled(struct err *err)
{
	return err_set(err, ERR_CONFLICT, ECANCELED, "the seal was cancelled");
}

/* The free space above the reserve, which is for the database beside the images. An eighth more
 * stays free, since a file takes more than its bytes, and other programs write meanwhile. */
static uint64_t count_free(struct guest_host *host)
{
	struct host_disk disk;
	uint64_t kept;

	room_get(&host->room, &disk);
	kept = disk.reserve_bytes + disk.reserve_bytes / 8;
	return disk.free_bytes - MIN(disk.free_bytes, kept);
}

static int no_room(struct err *err)
{
	(void)err_set(err, ERR_HOST_DISK_FULL, ENOSPC, "the host's disk has no room for the image");
	return err_hint(err, "make room on the disk of the data directory, or delete templates");
}

static uint64_t count_made(const struct image_build *s)
{
	struct stat st;

	return fstatat(s->out_fd, IMAGE_BUILD_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0
	               ? 0
	               : (uint64_t)st.st_size;
}

static void on_progress(struct loop *loop, void *arg)
{
	struct image_build *s = arg;
	const struct image_build_result so_far = {.bytes = count_made(s)};

	(void)loop;
	loop_timer_set_in(s->timer, PROGRESS_US);
	if (s->child && count_free(s->host) == 0) { /* somebody else took it meanwhile */
		s->lacks_room = true;
		(void)pidfd_send_signal(loop_child_pidfd(s->child), SIGKILL, NULL, 0);
	}
	s->fn(&so_far, NULL, s->arg);
}

static void on_finished(struct loop *loop, int wait_status, void *arg)
{
	struct image_build *s = arg;
	struct image_build_finished f;
	ssize_t n = read(s->result_fd, &f, sizeof(f));

	(void)loop;
	s->child = NULL;
	if (s->is_cancelled)
		(void)cancelled(&f.err);
	else if (n != sizeof(f) || wait_status != 0)
		(void)err_set(&f.err, ERR_INTERNAL, 0, "the image could not be brought to disk");
	if (f.err.code == ERR_NONE)
		end(s, &f.result, NULL);
	else
		fail(s, &f.err);
}

static void finish(struct image_build *s)
{
	const struct image_build_finish f = {.templates_fd = s->host->images.templates_fd,
	                                     .name = s->name,
	                                     .keeper = s->spec.keeper,
	                                     .is_whole = s->spec.is_whole != 0,
	                                     .may_need = s->may_need,
	                                     .n_may_need = s->n_may_need};
	struct err err;
	int pidfd = -1;
	int r;

	s->state = IMAGE_BUILD_FINISHING;
	r = image_build_finish_start(&f, &pidfd, &s->result_fd, &err);
	if (r == 0) {
		r = loop_child_take(s->host->loop, pidfd, on_finished, s, &s->child);
		if (r < 0)
			(void)err_set(&err, ERR_INTERNAL, -r, "cannot watch a child");
	}
	if (r < 0)
		fail(s, &err);
}

/* The last line of its output, only printable characters. */
static void read_words(const struct image_build *s, char ret[WORD_SIZE])
{
	char text[WORDS_MAX + 1];
	ssize_t n = read(s->words_fd, text, WORDS_MAX);
	char *line;

	text[MAX(n, 0)] = '\0';
	for (char *p = text; *p; p++)
		if (*p != '\n' && (*p < ' ' || *p > '~' || *p == '\''))
			*p = '?';
	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	line = strrchr(text, '\n');
	(void)snprintf(ret, WORD_SIZE, "%.*s", WORD_SIZE - 1, line ? line + 1 : text);
}

/* Finds the cause by checking limits, since the program's message depends on where it failed. */
static void tell_failure(struct image_build *s, int wait_status, struct err *ret)
{
	char words[WORD_SIZE];

	if (read(s->status_fd, ret, sizeof(*ret)) == sizeof(*ret)) { /* before its exec */
		ret->message[sizeof(ret->message) - 1] = ret->hint[sizeof(ret->hint) - 1] = '\0';
		ret->field[sizeof(ret->field) - 1] = '\0';
		return;
	}
	read_words(s, words);
	if (s->lacks_room || count_free(s->host) < SLACK ||
	    (s->bytes_max < s->spec.bytes_max && count_made(s) + SLACK > s->bytes_max))
		(void)no_room(ret);
	else if (count_made(s) + SLACK > s->spec.bytes_max)
		(void)err_set(ret, ERR_TOO_LARGE, EFBIG, "the image is larger than %llu MiB",
		              (unsigned long long)(s->spec.bytes_max >> 20));
	else if (WIFSIGNALED(wait_status))
		(void)err_set(
			ret, ERR_CAPACITY, 0,
			"mkfs.erofs was ended by signal %d; it may have needed too much memory",
			WTERMSIG(wait_status));
	else
		(void)err_set(ret, ERR_INTERNAL, 0, "mkfs.erofs failed: '%s'", words);
}

static void on_packed(struct loop *loop, int wait_status, void *arg)
{
	struct image_build *s = arg;
	struct err err = {0};

	(void)loop;
	s->child = NULL;
	loop_timer_set(s->timer, UINT64_MAX);
	if (s->is_cancelled)
		(void)cancelled(&err);
	else if (wait_status != 0)
		tell_failure(s, wait_status, &err);
	if (err.code == ERR_NONE)
		finish(s);
	else
		fail(s, &err);
}

static int open_layer(const struct image_build *s, struct err *err)
{
	int fd = openat(s->host->storage.fd, s->layer,
	                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_set(err, ERR_GONE, errno, "the sandbox's files are gone") : fd;
}

static int make_mounts(const struct image_build *s, pid_t pid, int fds[IMAGE_BUILD_MOUNT_COUNT],
                       struct err *err)
{
	auto_fd int userns_fd = -1, layer_fd = open_layer(s, err);
	int base_fd = s->host->usr_fd, r = layer_fd < 0 ? layer_fd : 0;
	char path[48];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	userns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (r == 0 && userns_fd < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot open the user namespace");
	if (r == 0 && !digest_is_zero(&s->base))
		r = images_mount(&s->host->images, &s->base, &base_fd, err);
	if (r == 0) {
		const int dirs[] = {[IMAGE_BUILD_MOUNT_TEMPLATE] = s->host->template_fd,
		                    [IMAGE_BUILD_MOUNT_BASE] = base_fd,
		                    [IMAGE_BUILD_MOUNT_LAYER] = layer_fd,
		                    [IMAGE_BUILD_MOUNT_OUT] = s->out_fd};

		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
			r = namespaces_idmapped_mount(dirs[i], userns_fd,
			                              i != IMAGE_BUILD_MOUNT_OUT, &fds[i], err);
	}
	if (r == 0)
		r = namespaces_detached_mount(s->host->usr_fd, /* is_read_only= */ true,
		                              &fds[IMAGE_BUILD_MOUNT_PROGRAMS], err);
	return r == 0 ? own_tmpfs_make_sealed(&fds[IMAGE_BUILD_MOUNT_OWN_TMPFS], err) : r;
}

/* Opens the images that hold the blocks of unchanged files. Of a directory of its own nothing is
 * known to be unchanged, and the template `host` has no image. */
static int open_bases(struct image_build *s, int fds[IMAGE_FILES_MAX], struct err *err)
{
	struct erofs_bases bases;
	int r;

	for (size_t i = 0; i < IMAGE_FILES_MAX; i++)
		fds[i] = -1;
	if (s->spec.is_tree || digest_is_zero(&s->base))
		return 0;
	r = images_open_files(&s->host->images, &s->base, fds, &bases, err);
	if (r < 0)
		return r;
	s->may_need[0] = s->base;
	for (size_t i = 0; i < bases.n; i++)
		s->may_need[1 + i] = bases.list[i].digest;
	s->n_may_need = 1 + bases.n;
	return 0;
}

static int send_orders(struct image_build *s, pid_t pid, int go_fd, int words_fd, struct err *err)
{
	struct image_build_orders orders = {.epoch_s = s->spec.epoch_s,
	                                    .bytes_max = s->bytes_max,
	                                    .is_tree = s->spec.is_tree,
	                                    .is_over = s->spec.is_over,
	                                    .is_small = s->spec.is_small,
	                                    .is_whole = s->spec.is_whole,
	                                    .is_host = digest_is_zero(&s->base)};
	int fds[IMAGE_BUILD_MOUNT_COUNT + 1 + IMAGE_FILES_MAX];
	ssize_t n = 0;
	int r;

	for (size_t i = 0; i < IMAGE_BUILD_MOUNT_COUNT; i++)
		fds[i] = -1;
	fds[IMAGE_BUILD_MOUNT_COUNT] = words_fd;
	r = open_bases(s, fds + IMAGE_BUILD_MOUNT_COUNT + 1, err);
	if (r == 0)
		r = make_mounts(s, pid, fds, err);
	orders.n_parts = (uint32_t)s->n_may_need;
	memcpy(orders.parts, s->may_need, sizeof(orders.parts));
	if (r == 0)
		n = fd_send(go_fd, &orders, sizeof(orders), fds,
		            IMAGE_BUILD_MOUNT_COUNT + 1 + s->n_may_need);
	if (n < 0)
		r = err_set(err, ERR_INTERNAL, (int)-n, "cannot send the orders");
	fds[IMAGE_BUILD_MOUNT_COUNT] = -1; /* the caller's */
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close_fd(&fds[i]);
	return r;
}

/* Without orders it ends by itself. */
static int hatch(struct image_build *s, const int go[2], const int status[2], const int words[2],
                 struct err *err)
{
	struct hatched h;
	int r = spawner_ask(&s->host->spawner, SPAWNER_IMAGE_BUILD, SLOT, go[1], status[1], -1,
	                    err);

	if (r == 0)
		r = spawner_take(&s->host->spawner, &h, err);
	if (r < 0)
		return r;
	r = loop_child_take(s->host->loop, h.pidfd, on_packed, s, &s->child);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the sealer");
	r = cgroup_confine(&s->host->cgroups, GROUP, &limits, h.pid, err);
	return r == 0 ? send_orders(s, h.pid, go[0], words[1], err) : r;
}

static int pack(struct image_build *s, struct err *err)
{
	int go[2] = {-1, -1}, status[2] = {-1, -1}, words[2] = {-1, -1};
	int *const all[] = {go, status, words};
	int r = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, go) < 0 ||
	    pipe2(status, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(words, O_CLOEXEC | O_NONBLOCK) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	if (r == 0)
		r = hatch(s, go, status, words, err);
	if (s->child && r < 0) { /* its end tells what we know already */
		(void)!fd_write_all(status[1], err, sizeof(*err));
		r = 0;
	}
	s->status_fd = take_fd(&status[0]);
	s->words_fd = take_fd(&words[0]);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		close_fd(&all[i][0]);
		close_fd(&all[i][1]);
	}
	return r;
}

static size_t count(enum image_build_state state)
{
	size_t n = 0;

	list_for_each (&builds, struct image_build, s, link)
		n += s->state == state;
	return n;
}

static struct image_build *first_waiting(void)
{
	list_for_each (&builds, struct image_build, s, link)
		if (s->state == IMAGE_BUILD_WAITING)
			return s;
	return NULL;
}

/* Called from the loop, so that no callback runs before image_build_start() has returned. */
static void pack_next(struct loop *loop, void *arg)
{
	struct image_build *s = first_waiting();
	struct err err = {0};

	(void)loop;
	(void)arg; /* not the host: it may have been closed meanwhile */
	if (!s || count(IMAGE_BUILD_PACKING) + count(IMAGE_BUILD_FINISHING) >= RUNNING_MAX)
		return;
	s->state = IMAGE_BUILD_PACKING;
	s->bytes_max = MIN(s->spec.bytes_max, count_free(s->host));
	loop_timer_set_in(s->timer, PROGRESS_US);
	if (pack(s, &err) < 0)
		fail(s, &err);
}

static void start_next(struct guest_host *host)
{
	if (first_waiting())
		loop_defer(host->loop, pack_next, NULL);
}

static int check_room(struct guest_host *host, struct err *err)
{
	if (count(IMAGE_BUILD_WAITING) >= WAITING_MAX)
		return err_set(err, ERR_LIMIT, 0, "%d seals wait already", WAITING_MAX);
	return count_free(host) < FREE_LEAST ? no_room(err) : 0;
}

/* path: below the layers. */
static int set_aside(struct image_build *s, const char *path, struct err *err)
{
	int templates_fd = s->host->images.templates_fd, r;

	if (mkdirat(templates_fd, s->name, 0700) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a directory for the image");
	s->out_fd = openat(templates_fd, s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->out_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the image's directory");
	if (!s->host->storage.is_btrfs) {
		(void)snprintf(s->layer, sizeof(s->layer), "%s", path);
		return 0;
	}
	r = storage_snapshot(&s->host->storage, path, s->name, err);
	if (r == 0)
		(void)snprintf(s->layer, sizeof(s->layer), "%s", s->name);
	return r;
}

int image_build_start(struct guest_host *host, const char *id, const struct digest *base,
                      const struct image_build_spec *spec, image_build_fn fn, void *arg,
                      struct image_build **ret, struct err *err)
{
	const bool is_saved = spec->snapshot[0] != '\0';
	const char *what = is_saved ? spec->snapshot : id;
	char path[LAYER_PATH_MAX];
	struct image_build *s;
	int r = check_room(host, err);

	(void)snprintf(path, sizeof(path), is_saved ? "%s/" DISK_SNAPSHOT_FILES : "%s", what);
	if (r == 0 && !storage_has(&host->storage, path))
		r = err_set(err, ERR_NOT_FOUND, ENOENT, "%s has no files here", what);
	if (r < 0)
		return r;
	s = xnew0(struct image_build);
	*s = (struct image_build){.host = host,
	                          .base = *base,
	                          .spec = *spec,
	                          .fn = fn,
	                          .arg = arg,
	                          .out_fd = -1,
	                          .status_fd = -1,
	                          .words_fd = -1,
	                          .result_fd = -1};
	id_make(s->name, "seal");
	r = set_aside(s, path, err);
	if (r < 0) {
		drop_layer(host, s->layer);
		(void)!dir_tree_remove(host->images.templates_fd, s->name);
		image_build_free(host->loop, s);
		return r;
	}
	s->timer = loop_timer_new(host->loop, on_progress, s);
	list_append(&builds, &s->link);
	start_next(host);
	*ret = s;
	return 0;
}

bool image_build_needs(const struct digest *image)
{
	list_for_each (&builds, struct image_build, s, link)
		if (digest_equal(&s->base, image))
			return true;
	return false;
}

void image_build_cancel(struct image_build *s)
{
	struct err err;

	s->is_cancelled = true;
	if (s->child) {
		(void)pidfd_send_signal(loop_child_pidfd(s->child), SIGKILL, NULL, 0);
		return;
	}
	(void)cancelled(&err);
	fail(s, &err);
}

static void sweep_dir(struct guest_host *host, int dir_fd, bool is_layers)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;

	(void)!dir_open(&dir, dir_fd, ".");
	while ((name = dir_next(&dir))) {
		size_t len = strlen(name);
		bool is_gone = len > 5 && strcmp(name + len - 5, ".gone") == 0;

		if (is_layers)
			drop_layer(host, name);
		else if (is_gone || id_is_valid(name, "seal"))
			(void)!dir_tree_remove(dir_fd, name);
	}
	dir_tell(&dir, "leftovers of image builds");
}

void image_build_sweep(struct guest_host *host)
{
	cgroup_kill(&host->cgroups, GROUP);
	(void)!cgroup_remove(&host->cgroups, GROUP);
	sweep_dir(host, host->images.templates_fd, /* is_layers= */ false);
	sweep_dir(host, host->storage.fd, /* is_layers= */ true);
}

void image_build_end_all(struct guest_host *host)
{
	list_for_each (&builds, struct image_build, s, link) {
		if (s->child) {
			int pidfd = loop_child_pidfd(s->child);

			(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
			(void)waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){0}, WEXITED);
			loop_child_remove(s->child);
		}
		list_remove(&s->link);
		loop_timer_free(s->timer);
		image_build_free(host->loop, s);
	}
	if (host->images.templates_fd >= 0)
		image_build_sweep(host);
}
