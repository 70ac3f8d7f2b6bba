// SPDX-License-Identifier: Apache-2.0
#include "engine/template/sealed_file.h"

#include "base/fd.h"
#include "engine/guest/guest.h"
#include "engine/linux/syscalls.h"
#include "engine/template/file_limit.h"
#include "engine/template/seal_key.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FILES_MAX 16
#define SLACK     (UINT64_C(64) << 20) /* of room that stays */
#define CHUNK     ((size_t)1 << 20)

struct finished { /* by the child that hashes */
	struct err err;
	uint64_t bytes;
	struct digest digest;
};

struct sealed_file {
	struct list link;
	struct guest_host *host;
	struct sealed_file_spec spec;
	int fd; /* to read */
	struct file_limit *limit;
	sealed_file_fn fn; /* NULL: it is being filled */
	void *arg;
	int result_fd;
	struct loop_child *child;
};

static struct list files = LIST_INIT(files);

static struct sealed_file *find(uint64_t number)
{
	list_for_each (&files, struct sealed_file, f, link)
		if (f->spec.number == number)
			return f;
	return NULL;
}

/* Somebody may have it still: then its bound stays. */
static void drop(struct sealed_file *f, bool is_whole)
{
	list_remove(&f->link);
	if (f->limit && is_whole)
		file_limit_free(f->limit);
	else if (f->limit)
		file_limit_leave(f->limit);
	close_fd(&f->fd);
	close_fd(&f->result_fd);
	free(f);
}

static struct object_claim claim_of(const struct sealed_file_spec *s)
{
	return (struct object_claim){.kind = OBJECT_FILES,
	                             .size = s->bytes,
	                             .generation = s->generation,
	                             .digest = s->digest,
	                             .class = s->class};
}

static int check_room(struct guest_host *host, uint64_t bytes, struct err *err)
{
	struct host_disk disk;
	uint64_t wanted = bytes;

	room_get(&host->room, &disk);
	list_for_each (&files, const struct sealed_file, f, link)
		wanted += f->spec.bytes; /* of which a part is there: rather too careful */
	if (disk.free_bytes > disk.reserve_bytes + SLACK + wanted)
		return 0;
	(void)err_set(err, ERR_HOST_DISK_FULL, ENOSPC,
	              "the snapshot's files need %llu MiB, and this node's disk has %llu MiB left",
	              (unsigned long long)(bytes >> 20),
	              (unsigned long long)(disk.free_bytes >> 20));
	return err_hint(err, "make room on the disk of the data directory");
}

static int make_file(struct sealed_file *f, int *ret_fd, struct err *err)
{
	auto_fd int fd =
		openat(f->host->images.templates_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char path[sizeof("/proc/self/fd/") + 12];
	int r;

	if (fd < 0)
		return err_set(err, errno == ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, errno,
		               "cannot make a file for the snapshot");
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	f->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (f->fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the snapshot's file");
	r = file_limit_new(f->host->loop, fd, f->spec.bytes, "snapshot", &f->limit, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int sealed_file_open(struct guest_host *host, const struct sealed_file_spec *spec, int *ret_fd,
                     struct err *err)
{
	const struct object_claim claim = claim_of(spec);
	struct sealed_file *f;
	struct digest unused;
	size_t n = 0;
	int r;

	list_for_each (&files, const struct sealed_file, other, link)
		n++;
	if (find(spec->number))
		return err_set(err, ERR_CONFLICT, EEXIST, "this file exists already");
	if (n >= FILES_MAX)
		return err_set(err, ERR_UNAVAILABLE, EBUSY, "%zu snapshots are on their way", n);
	r = spec->is_fetched ? seal_check(host, &claim, &spec->seal, "snapshot", err)
	                     : seal_make(host, &claim, &unused, err); /* whether it could be */
	if (r == 0)
		r = check_room(host, spec->bytes, err);
	if (r < 0)
		return r;
	f = xnew0(struct sealed_file);
	*f = (struct sealed_file){.host = host, .spec = *spec, .fd = -1, .result_fd = -1};
	list_append(&files, &f->link);
	r = make_file(f, ret_fd, err);
	if (r < 0)
		drop(f, true);
	return r;
}

/* In a child: it takes long. Nobody can open the file by a name, so if nobody has it open for
 * writing now, what is hashed is what it will have. */
static void hash(int fd, struct finished *end)
{
	static unsigned char chunk[CHUNK];
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	ssize_t n = 0;

	if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
		(void)err_set(&end->err, ERR_INTERNAL, 0, "there is no SHA-256");
	} else if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0) {
		(void)err_set(&end->err, ERR_CONFLICT, errno,
		              "the snapshot's file is still open for writing");
	} else {
		while ((n = pread(fd, chunk, sizeof(chunk), (off_t)end->bytes)) > 0) {
			end->bytes += (uint64_t)n;
			if (EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
				n = -1;
			if (n < 0)
				break;
		}
		if (n < 0 || EVP_DigestFinal_ex(ctx, end->digest.bytes, NULL) != 1)
			(void)err_set(&end->err, ERR_INTERNAL, errno, "cannot hash the snapshot");
	}
	EVP_MD_CTX_free(ctx);
}

static int start_child(struct sealed_file *f, struct err *err)
{
	int fds[2], pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD, .exit_signal = SIGCHLD, .pidfd = (uint64_t)(uintptr_t)&pidfd};
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	pid = sys_clone3(&args);
	if (pid == 0) {
		struct finished end = {0};

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)signal(SIGIO, SIG_IGN); /* of a lease */
		hash(f->fd, &end);
		_exit(fd_write_all(fds[1], &end, sizeof(end)) == 0 ? 0 : 1);
	}
	(void)close(fds[1]);
	f->result_fd = fds[0];
	return pid < 0 ? err_set(err, ERR_CAPACITY, errno, "cannot make a child") : pidfd;
}

static int judge(const struct sealed_file *f, const struct finished *end,
                 struct sealed_file_result *ret, struct err *err)
{
	struct object_claim claim = claim_of(&f->spec);

	if (end->err.code != ERR_NONE) {
		*err = end->err;
		return -EIO;
	}
	if (f->spec.is_fetched) {
		if (end->bytes != f->spec.bytes || !digest_equal(&end->digest, &f->spec.digest))
			return err_set(err, ERR_CONFLICT, 0,
			               "this is not the snapshot that was sealed: the store of "
			               "objects returned other bytes than were put there");
		*ret = (struct sealed_file_result){end->bytes, end->digest, f->spec.seal};
		return 0;
	}
	if (end->bytes == 0 || end->bytes > f->spec.bytes)
		return err_set(err, ERR_TOO_LARGE, 0,
		               "the snapshot's files are larger than announced");
	claim.size = end->bytes;
	claim.digest = end->digest;
	*ret = (struct sealed_file_result){.bytes = end->bytes, .digest = end->digest};
	return seal_make(f->host, &claim, &ret->seal, err);
}

static void on_hashed(struct loop *loop, int wait_status, void *arg)
{
	struct sealed_file *f = arg;
	const sealed_file_fn fn = f->fn;
	void *const fn_arg = f->arg;
	struct sealed_file_result result;
	struct finished end = {0};
	struct err err;
	auto_fd int fd = -1;
	int r;

	(void)loop;
	f->child = NULL;
	if (wait_status != 0 || fd_read_all(f->result_fd, &end, sizeof(end)) < 0)
		(void)err_set(&end.err, ERR_INTERNAL, 0, "the snapshot could not be hashed");
	r = judge(f, &end, &result, &err);
	fd = take_fd(&f->fd);
	drop(f, end.err.code == ERR_NONE);
	if (r == 0)
		fn(&result, fd, NULL, fn_arg);
	else
		fn(NULL, -1, &err, fn_arg);
}

int sealed_file_close(struct guest_host *host, uint64_t number, sealed_file_fn fn, void *arg,
                      struct err *err)
{
	struct sealed_file *f = find(number);
	int r;

	(void)host;
	if (!f || f->fn)
		return err_set(err, ERR_NOT_FOUND, ENOENT, "there is no such file");
	if (file_limit_is_broken(f->limit)) {
		(void)err_set(err, ERR_TOO_LARGE, 0,
		              "more was written into the snapshot's file than announced");
		drop(f, false);
		return -EFBIG;
	}
	f->fn = fn;
	f->arg = arg;
	file_limit_pause(f->limit);
	r = start_child(f, err);
	if (r >= 0) {
		r = loop_child_take(f->host->loop, r, on_hashed, f, &f->child);
		if (r < 0)
			(void)err_set(err, ERR_INTERNAL, -r, "cannot watch a child");
	}
	if (r < 0) {
		drop(f, false);
		return r;
	}
	return 1;
}

void sealed_file_drop(struct guest_host *host, uint64_t number)
{
	struct sealed_file *f = find(number);

	(void)host;
	if (f && !f->fn) /* else it ends by itself */
		drop(f, false);
}

void sealed_files_end_all(struct guest_host *host)
{
	(void)host;
	list_for_each (&files, struct sealed_file, f, link) {
		if (f->child) {
			int pidfd = loop_child_pidfd(f->child);

			(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
			(void)waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){0}, WEXITED);
			loop_child_remove(f->child);
		}
		drop(f, true);
	}
	file_limits_end_all();
}
