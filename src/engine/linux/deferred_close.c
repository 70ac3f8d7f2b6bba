// SPDX-License-Identifier: Apache-2.0
#include "engine/linux/deferred_close.h"

#include <string.h>
#include <unistd.h>

#define DEFER_US UINT64_C(200000)

static void close_first(struct deferred_close *l, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)close(l->sockets[i].fd);
	l->n -= n;
	memmove(l->sockets, l->sockets + n, l->n * sizeof(l->sockets[0]));
}

static void on_timer(struct loop *loop, void *arg)
{
	struct deferred_close *l = arg;
	size_t n = 0;

	while (n < l->n && l->sockets[n].until_us <= loop_now_us(loop))
		n++;
	close_first(l, n);
	if (l->n > 0)
		loop_timer_set(l->timer, l->sockets[0].until_us);
}

void deferred_close_add(struct deferred_close *l, struct loop *loop, int fd)
{
	if (!l->timer)
		l->timer = loop_timer_new(loop, on_timer, l);
	if (l->n == DEFERRED_MAX)
		close_first(l, 1);
	l->sockets[l->n++] =
		(struct deferred_socket){.fd = fd, .until_us = loop_now_us(loop) + DEFER_US};
	loop_timer_set(l->timer, l->sockets[0].until_us);
}

void deferred_close_done(struct deferred_close *l)
{
	close_first(l, l->n);
	loop_timer_free(l->timer);
	l->timer = NULL;
}
