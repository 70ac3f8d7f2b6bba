// SPDX-License-Identifier: Apache-2.0
#include "engine/template/image_exchange.h"

#include "base/fd.h"
#include "base/log.h"
#include "engine/guest/guest.h"
#include "engine/linux/dir_tree.h"
#include "engine/template/file_limit.h"
#include "engine/template/image_build_child.h"
#include "engine/template/image_build_finish.h"
#include "engine/template/seal_key.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FETCHES_MAX 8
#define SLACK       (UINT64_C(64) << 20) /* of room that stays */

struct fetch {
	struct list link;
	struct guest_host *host;
	char name[ID_SIZE]; /* in DATA/templates */
	struct image_claim claim;
	struct file_limit *limit; /* until it is taken */
	image_build_fn fn;        /* NULL: it is being filled */
	void *arg;
	int result_fd;
	struct loop_child *child;
};

static struct list fetches = LIST_INIT(fetches);

static struct object_claim claim_of(const struct image_claim *c)
{
	return (struct object_claim){
		.kind = OBJECT_IMAGE, .size = c->bytes, .digest = c->image, .class = c->class};
}

static int check_seal(struct guest_host *host, const struct image_claim *c, struct err *err)
{
	const struct object_claim claim = claim_of(c);

	return seal_check(host, &claim, &c->seal, "image", err);
}

int image_share(struct guest_host *host, const struct image_claim *c, int *ret_fd,
                struct image_shared *ret, struct err *err)
{
	int fds[IMAGE_FILES_MAX];
	struct erofs_bases bases;
	struct object_claim claim;
	struct stat st;
	int r = images_open_files(&host->images, &c->image, fds, &bases, err);

	if (r < 0)
		return r;
	for (size_t i = 1; i < IMAGE_FILES_MAX; i++)
		close_fd(&fds[i]);
	if (fstat(fds[0], &st) < 0) {
		close_fd(&fds[0]);
		return err_set(err, ERR_INTERNAL, errno, "cannot read the image");
	}
	*ret = (struct image_shared){.bytes = (uint64_t)st.st_size};
	image_tell_bases(&bases, &ret->bases);
	claim = claim_of(c);
	claim.size = ret->bytes;
	r = seal_make(host, &claim, &ret->seal, err);
	if (r < 0)
		close_fd(&fds[0]);
	else
		*ret_fd = fds[0];
	return r;
}

static struct fetch *find(const struct digest *image)
{
	list_for_each (&fetches, struct fetch, f, link)
		if (digest_equal(&f->claim.image, image))
			return f;
	return NULL;
}

static void drop(struct fetch *f)
{
	list_remove(&f->link);
	if (f->limit)
		file_limit_leave(f->limit);
	(void)!dir_tree_remove(f->host->images.templates_fd, f->name);
	close_fd(&f->result_fd);
	free(f);
}

static int check_room(struct guest_host *host, uint64_t bytes, struct err *err)
{
	struct host_disk disk;
	uint64_t wanted = bytes;

	room_get(&host->room, &disk);
	list_for_each (&fetches, const struct fetch, f, link)
		wanted += f->claim.bytes; /* of which a part is there: rather too careful */
	if (disk.free_bytes > disk.reserve_bytes + SLACK + wanted)
		return 0;
	(void)err_set(err, ERR_HOST_DISK_FULL, ENOSPC,
	              "the image has %llu MiB, and this node's disk has %llu MiB left for it",
	              (unsigned long long)(bytes >> 20),
	              (unsigned long long)((disk.free_bytes -
	                                    MIN(disk.free_bytes, disk.reserve_bytes + SLACK)) >>
	                                   20));
	return err_hint(err, "make room on the disk of the data directory, or delete templates");
}

static bool is_here(struct guest_host *host, const struct digest *image, uint64_t *ret_bytes)
{
	int fds[IMAGE_FILES_MAX];
	struct erofs_bases bases;
	struct stat st = {0};
	bool is_fine;

	if (images_open_files(&host->images, image, fds, &bases, NULL) < 0)
		return false;
	is_fine = fstat(fds[0], &st) == 0;
	*ret_bytes = (uint64_t)st.st_size;
	for (size_t i = 0; i < IMAGE_FILES_MAX; i++)
		close_fd(&fds[i]);
	return is_fine;
}

int image_fetch(struct guest_host *host, const struct image_claim *c, int *ret_fd, struct err *err)
{
	const int templates_fd = host->images.templates_fd;
	char path[ID_SIZE + sizeof("/" IMAGE_BUILD_FILE)];
	uint64_t bytes;
	struct fetch *f;
	size_t n = 0;
	int r = check_seal(host, c, err);

	if (r < 0 || is_here(host, &c->image, &bytes)) /* then it is only taken */
		return r;
	if (find(&c->image))
		return err_set(err, ERR_CONFLICT, EBUSY, "this image is being fetched");
	list_for_each (&fetches, const struct fetch, other, link)
		n++;
	if (n >= FETCHES_MAX)
		return err_set(err, ERR_UNAVAILABLE, EBUSY, "%zu images are being fetched", n);
	r = check_room(host, c->bytes, err);
	if (r < 0)
		return r;
	f = xnew0(struct fetch);
	*f = (struct fetch){.host = host, .claim = *c, .result_fd = -1};
	list_init(&f->link);
	id_make(f->name, "seal");
	(void)snprintf(path, sizeof(path), "%s/" IMAGE_BUILD_FILE, f->name);
	if (mkdirat(templates_fd, f->name, 0700) < 0)
		r = -errno;
	else
		*ret_fd = openat(templates_fd, path,
		                 O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (r == 0 && *ret_fd < 0)
		r = -errno;
	if (r < 0)
		(void)err_set(err, ERR_INTERNAL, -r, "cannot make a file for the image");
	else
		r = file_limit_new(host->loop, *ret_fd, c->bytes, "image", &f->limit, err);
	if (r < 0) {
		close_fd(ret_fd);
		drop(f);
		return r;
	}
	list_append(&fetches, &f->link);
	return 0;
}

static void on_finished(struct loop *loop, int wait_status, void *arg)
{
	struct fetch *f = arg;
	const struct fetch was = *f;
	struct image_build_finished end;
	ssize_t n = read(f->result_fd, &end, sizeof(end));

	(void)loop;
	if (n != sizeof(end) || wait_status != 0)
		(void)err_set(&end.err, ERR_INTERNAL, 0, "the image could not be checked");
	if (end.err.code == ERR_NONE) /* it is no more to be emptied */
		file_limit_free(take_ptr(f->limit));
	drop(f);
	if (end.err.code == ERR_NONE)
		was.fn(&end.result, NULL, was.arg);
	else
		was.fn(NULL, &end.err, was.arg);
}

static int begin_check(struct fetch *f, struct err *err)
{
	const struct image_build_finish finish = {.templates_fd = f->host->images.templates_fd,
	                                          .name = f->name,
	                                          .keeper = f->claim.keeper,
	                                          .is = &f->claim.image,
	                                          .bytes = f->claim.bytes,
	                                          .is_base = f->claim.is_base != 0};
	int pidfd = -1;
	int r = image_build_finish_start(&finish, &pidfd, &f->result_fd, err);

	if (r == 0) {
		r = loop_child_take(f->host->loop, pidfd, on_finished, f, &f->child);
		if (r < 0)
			(void)err_set(err, ERR_INTERNAL, -r, "cannot watch a child");
	}
	return r;
}

static int take_what_is_here(struct guest_host *host, const struct image_claim *c,
                             struct image_shared *ret, struct err *err)
{
	struct image_info info;
	uint64_t bytes;
	int r;

	if (!is_here(host, &c->image, &bytes) || bytes != c->bytes)
		return err_set(err, ERR_UNAVAILABLE, 0, "the image is gone again; try again");
	r = c->is_base ? 0 : images_show(&host->images, &c->image, c->keeper, err);
	if (r == 0 && !c->is_base && !images_find(&host->images, &c->image, &info))
		r = err_set(err, ERR_CONFLICT, 0, "an image that it needs is not here");
	if (r == 0 && !c->is_base)
		ret->bases = info.bases;
	ret->bytes = bytes;
	return r;
}

int image_take(struct guest_host *host, const struct image_claim *c, image_build_fn fn, void *arg,
               struct image_shared *ret, struct err *err)
{
	struct fetch *f = find(&c->image);
	int r = check_seal(host, c, err);

	if (r < 0 || !f)
		return r < 0 ? r : take_what_is_here(host, c, ret, err);
	if (f->fn)
		return err_set(err, ERR_CONFLICT, EBUSY, "this image is being checked");
	if (file_limit_is_broken(f->limit)) {
		drop(f);
		return err_set(err, ERR_CONFLICT, EFBIG,
		               "more was written into the image's file than its size");
	}
	f->claim = *c;
	f->fn = fn;
	f->arg = arg;
	file_limit_pause(f->limit);
	r = begin_check(f, err);
	if (r < 0)
		drop(f);
	return r < 0 ? r : 1;
}

void image_drop(struct guest_host *host, const struct digest *image)
{
	struct fetch *f = find(image);

	(void)host;
	if (f && !f->fn) /* else its check ends by itself */
		drop(f);
}

void image_exchange_end_all(struct guest_host *host)
{
	(void)host;
	list_for_each (&fetches, struct fetch, f, link) {
		if (f->child) {
			int pidfd = loop_child_pidfd(f->child);

			(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
			(void)waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){0}, WEXITED);
			loop_child_remove(f->child);
		}
		drop(f);
	}
}
