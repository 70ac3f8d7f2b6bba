// SPDX-License-Identifier: Apache-2.0
#include "engine/template/file_limit.h"

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define LOOK_US UINT64_C(200000)
#define SLACK   (UINT64_C(1) << 20) /* what a filesystem takes for its own */

struct file_limit {
	struct list link;
	struct loop_timer *timer;
	int fd; /* to read: so that it is no writer itself */
	uint64_t bytes;
	char what[24];
	bool is_broken, is_left;
};

static struct list limits = LIST_INIT(limits);

void file_limit_free(struct file_limit *b)
{
	if (!b)
		return;
	list_remove(&b->link);
	loop_timer_free(b->timer);
	close_fd(&b->fd);
	free(b);
}

/* A lease for reading is refused while anybody has it open for writing. */
static bool has_writer(int fd)
{
	if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		return true;
	(void)fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

static void empty(const struct file_limit *b)
{
	char path[sizeof("/proc/self/fd/") + 12];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", b->fd);
	(void)!truncate(path, 0);
}

static bool is_larger(const struct file_limit *b)
{
	struct stat st;

	return fstat(b->fd, &st) == 0 &&
	       ((uint64_t)st.st_size > b->bytes || (uint64_t)st.st_blocks * 512 > b->bytes + SLACK);
}

static void on_look(struct loop *loop, void *arg)
{
	struct file_limit *b = arg;

	(void)loop;
	if (b->is_left && !has_writer(b->fd)) {
		file_limit_free(b);
		return;
	}
	if (!b->is_left && !b->is_broken && is_larger(b)) {
		b->is_broken = true;
		log_error("file.too_large", "what='%s' bytes=%llu", b->what,
		          (unsigned long long)b->bytes);
	}
	if (b->is_left || b->is_broken)
		empty(b);
	loop_timer_set_in(b->timer, LOOK_US);
}

int file_limit_new(struct loop *loop, int fd, uint64_t bytes, const char *what,
                   struct file_limit **ret, struct err *err)
{
	char path[sizeof("/proc/self/fd/") + 12];
	struct file_limit *b;
	int own;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_RDONLY | O_CLOEXEC);
	if (own < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot watch a file");
	b = xnew0(struct file_limit);
	*b = (struct file_limit){.fd = own, .bytes = bytes};
	(void)snprintf(b->what, sizeof(b->what), "%s", what);
	b->timer = loop_timer_new(loop, on_look, b);
	list_append(&limits, &b->link);
	loop_timer_set_in(b->timer, LOOK_US);
	*ret = b;
	return 0;
}

bool file_limit_is_broken(const struct file_limit *b)
{
	return b->is_broken || is_larger(b);
}

void file_limit_pause(struct file_limit *b)
{
	loop_timer_set(b->timer, UINT64_MAX);
}

void file_limit_leave(struct file_limit *b)
{
	b->is_left = true;
	loop_timer_set_in(b->timer, 0);
}

void file_limits_end_all(void)
{
	list_for_each (&limits, struct file_limit, b, link)
		file_limit_free(b);
}
