// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/cluster_link.h"

#include "base/log.h"

#include <sys/epoll.h>
#include <sys/socket.h>

static void drop(struct cluster_link *l)
{
	if (!l->io)
		return;
	loop_io_removep(&l->io);
	(void)close(l->fd);
}

/* The member is not believed more than a stranger: its texts end where their room does. */
static void take(struct cluster_link *l, struct cluster_word *word)
{
	word->code[sizeof(word->code) - 1] = '\0';
	word->message[sizeof(word->message) - 1] = '\0';
	word->hint[sizeof(word->hint) - 1] = '\0';
	if (word->state > FENCE_LOST)
		word->state = FENCE_OUT;
	l->word = *word;
}

static void on_word(struct loop *loop, uint32_t events, void *arg)
{
	struct cluster_link *l = arg;
	struct cluster_word word;
	ssize_t n = recv(l->fd, &word, sizeof(word), MSG_DONTWAIT);

	(void)loop;
	(void)events;
	if (n == (ssize_t)sizeof(word))
		take(l, &word);
	else if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		drop(l);
}

void cluster_link_attach(struct cluster_link *l, struct loop *loop, int fd)
{
	if (fd < 0)
		return;
	drop(l);
	l->fd = fd;
	if (loop_io_add(loop, fd, EPOLLIN, on_word, l, &l->io) == 0)
		return;
	log_error("gateway.member_not_watched", "fd=%d", fd);
	(void)close(fd);
}
