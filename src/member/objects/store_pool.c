// SPDX-License-Identifier: Apache-2.0
#include "member/objects/store_pool.h"

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

struct queued {
	struct list link;
	struct store_job job;
	int fd;
	store_fn fn;
	void *arg;
};

struct worker {
	struct store_pool *pool;
	int fd; /* -1: it is dead */
	struct loop_io *io;
	struct queued *busy;
};

struct store_pool {
	struct loop *loop;
	struct worker workers[STORE_WORKERS];
	struct list queue;
};

static void queued_free(struct queued *q)
{
	explicit_bzero(&q->job.keys, sizeof(q->job.keys));
	free(q);
}

static void fail(struct queued *q)
{
	struct store_result result = {.op = q->job.op, .trouble = TROUBLE_STORE_UNREACHABLE};
	struct queued done = *q;

	(void)snprintf(result.message, sizeof(result.message),
	               "the process that speaks with the store has died");
	queued_free(q);
	done.fn(&result, done.arg);
}

static void bury(struct worker *w)
{
	log_error("cluster.store_worker_died", "left=%zu", store_pool_workers(w->pool) - 1);
	loop_io_removep(&w->io);
	close_fd(&w->fd);
	if (w->busy)
		fail(take_ptr(w->busy));
}

static void feed(struct store_pool *p)
{
	for (size_t i = 0; i < STORE_WORKERS && !list_empty(&p->queue); i++) {
		struct worker *w = &p->workers[i];
		struct queued *q = container_of(p->queue.next, struct queued, link);

		if (w->fd < 0 || w->busy)
			continue;
		list_remove(&q->link);
		w->busy = q;
		if (fd_send(w->fd, &q->job, sizeof(q->job), &q->fd, q->fd >= 0) < 0)
			bury(w);
	}
	while (store_pool_workers(p) == 0 && !list_empty(&p->queue)) {
		struct queued *q = container_of(p->queue.next, struct queued, link);

		list_remove(&q->link);
		fail(q);
	}
}

static void on_result(struct loop *loop, uint32_t events, void *arg)
{
	struct worker *w = arg;
	struct store_pool *p = w->pool;
	struct store_result result;
	ssize_t n = recv(w->fd, &result, sizeof(result), MSG_DONTWAIT);

	(void)loop;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(result) || !w->busy || result.trouble >= TROUBLE_COUNT) {
		bury(w);
	} else {
		struct queued *q = take_ptr(w->busy);
		struct queued done = *q;

		result.message[sizeof(result.message) - 1] = '\0';
		queued_free(q);
		done.fn(&result, done.arg);
	}
	feed(p);
}

static void on_feed(struct loop *loop, void *arg)
{
	(void)loop;
	feed(arg);
}

int store_pool_new(struct loop *loop, const int *fds, size_t n, struct store_pool **ret)
{
	struct store_pool *p = xnew0(struct store_pool);
	int r = 0;

	p->loop = loop;
	list_init(&p->queue);
	for (size_t i = 0; i < STORE_WORKERS; i++) {
		struct worker *w = &p->workers[i];

		*w = (struct worker){.pool = p, .fd = i < n ? fds[i] : -1};
		if (r == 0 && w->fd >= 0)
			r = loop_io_add(loop, w->fd, EPOLLIN, on_result, w, &w->io);
	}
	if (r < 0)
		store_pool_free(p);
	else
		*ret = p;
	return r;
}

void store_pool_free(struct store_pool *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < STORE_WORKERS; i++) {
		loop_io_removep(&p->workers[i].io);
		close_fd(&p->workers[i].fd);
		if (p->workers[i].busy)
			fail(take_ptr(p->workers[i].busy));
	}
	feed(p);
	free(p);
}

size_t store_pool_workers(const struct store_pool *p)
{
	size_t n = 0;

	for (size_t i = 0; i < STORE_WORKERS; i++)
		n += p->workers[i].fd >= 0;
	return n;
}

void store_pool_do(struct store_pool *p, const struct store_job *job, int fd, store_fn fn,
                   void *arg)
{
	struct queued *q = xnew0(struct queued);

	*q = (struct queued){.job = *job, .fd = fd, .fn = fn, .arg = arg};
	list_append(&p->queue, &q->link);
	loop_defer(p->loop, on_feed, p);
}
