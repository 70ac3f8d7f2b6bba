// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/cluster_link.h"

#include "base/fd.h"
#include "base/log.h"
#include "loop/packets.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define QUEUE_MAX 1024

struct cluster_ask {
	uint32_t seq, kind;  /* of the answer */
	cluster_reply_fn fn; /* NULL: forgotten */
	void *arg;
	int error; /* of one that could not be sent */
};

static void answer(struct cluster_ask *ask, const struct cluster_reply *reply)
{
	if (ask->fn)
		ask->fn(reply, ask->arg);
	else if (reply->fd >= 0)
		(void)close(reply->fd);
	free(ask);
}

static struct cluster_ask *take_ask(struct cluster_link *l, uint32_t seq, uint32_t kind)
{
	for (size_t i = 0; i < l->n_asks; i++) {
		struct cluster_ask *ask = l->asks[i];

		if (ask->seq != seq || ask->kind != kind || ask->error)
			continue;
		l->asks[i] = l->asks[--l->n_asks];
		return ask;
	}
	return NULL;
}

static void fail_asks(struct cluster_link *l)
{
	struct cluster_ask **asks = take_ptr(l->asks);
	size_t n = l->n_asks;

	l->n_asks = 0;
	for (size_t i = 0; i < n; i++)
		answer(asks[i], &(struct cluster_reply){.error = -EPIPE,
		                                        .message = "the member is gone",
		                                        .fd = -1});
	free(asks);
}

static bool is_text(const char *text, size_t size)
{
	const char *end = memchr(text, '\0', size);

	for (const char *p = text; end && p < end; p++)
		if (*p <= ' ' || *p > '~' || strchr("'\"\\", *p))
			return false;
	return end && end > text;
}

static bool is_fine(const struct cluster_node_row *row, const struct cluster_node_row *before)
{
	for (size_t i = 0; i < TAGS_PER_NODE; i++)
		if (row->tags[i] >= TAG_COUNT && row->tags[i] != CLUSTER_NO_TAG)
			return false;
	return row->node > 0 && row->is_alive <= 1 && row->is_cordoned <= 1 &&
	       is_text(row->name, sizeof(row->name)) &&
	       is_text(row->address, sizeof(row->address)) && (!before || row->node > before->node);
}

static int set_nodes(struct cluster_link *l)
{
	auto_free struct tag_row *rows = xnew0n(struct tag_row, l->n_coming * TAGS_PER_NODE + 1);
	size_t n = 0;
	int r;

	for (size_t i = 0; i < l->n_coming; i++)
		for (size_t k = 0; k < TAGS_PER_NODE; k++)
			if (l->coming[i].tags[k] != CLUSTER_NO_TAG)
				rows[n++] =
					(struct tag_row){l->coming[i].tags[k], l->coming[i].node};
	r = tag_map_set(&l->tags, rows, n);
	if (r < 0)
		return r;
	free(l->nodes);
	l->nodes = take_ptr(l->coming);
	l->n_nodes = l->n_coming;
	l->n_coming = l->total_coming = 0;
	log_debug("gateway.cluster_nodes", "nodes=%zu", l->n_nodes);
	if (l->ops)
		l->ops->nodes(l->arg);
	return 0;
}

static int take_nodes(struct cluster_link *l, const struct cluster_nodes *m, size_t len)
{
	if (len < sizeof(*m) || m->n == 0 || m->n > CLUSTER_NODES_MAX ||
	    len != sizeof(*m) + m->n * sizeof(m->rows[0]) || m->total > CLUSTER_NODES_TOTAL ||
	    m->first > m->total || m->n > m->total - m->first || m->head.seq != 0)
		return -EPROTO;
	if (m->first == 0) {
		free(l->coming);
		l->coming = xnew0n(struct cluster_node_row, m->total);
		l->n_coming = 0;
		l->total_coming = m->total;
	}
	if (m->first != l->n_coming || m->total != l->total_coming)
		return -EPROTO;
	for (uint32_t i = 0; i < m->n; i++) {
		if (!is_fine(&m->rows[i], l->n_coming ? &l->coming[l->n_coming - 1] : NULL))
			return -EPROTO;
		l->coming[l->n_coming++] = m->rows[i];
	}
	return l->n_coming == l->total_coming ? set_nodes(l) : 0;
}

static int take_word(struct cluster_link *l, const struct cluster_told *m, size_t len)
{
	const struct cluster_word *w = &m->word;

	if (len != sizeof(*m) || m->head.seq != 0 || w->state > FENCE_LOST ||
	    !memchr(w->code, '\0', sizeof(w->code)) ||
	    !memchr(w->message, '\0', sizeof(w->message)) ||
	    !memchr(w->hint, '\0', sizeof(w->hint)))
		return -EPROTO;
	l->word = *w;
	if (l->told)
		l->told(&l->word, l->told_arg);
	return 0;
}

static int take_opened(struct cluster_link *l, const struct cluster_opened *m, size_t len, int *fd)
{
	struct cluster_ask *ask;

	if (len != sizeof(*m) || m->error > 0 || (m->error == 0) != (*fd >= 0) ||
	    !memchr(m->message, '\0', sizeof(m->message)))
		return -EPROTO;
	ask = take_ask(l, m->head.seq, CLUSTER_OPENED);
	if (!ask)
		return -EPROTO;
	answer(ask, &(struct cluster_reply){
			    .error = m->error, .message = m->message, .fd = take_fd(fd)});
	return 0;
}

static int take_arrived(struct cluster_link *l, const struct cluster_arrived *m, size_t len,
                        int *fd)
{
	if (len != sizeof(*m) || m->head.seq != 0 || m->from == 0 || *fd < 0)
		return -EPROTO;
	if (l->ops)
		l->ops->arrived(m->from, take_fd(fd), l->arg);
	return 0;
}

static int take_answer(struct cluster_link *l, const struct cluster_call *m, size_t len)
{
	auto_json json_t *json = NULL;
	struct cluster_ask *ask;
	struct err err;

	if (len <= sizeof(*m) || json_parse(m->json, len - sizeof(*m), &json, &err) < 0 ||
	    !json_is_object(json))
		return -EPROTO;
	ask = take_ask(l, m->head.seq, CLUSTER_ANSWER);
	if (!ask)
		return -EPROTO;
	answer(ask, &(struct cluster_reply){.message = "", .fd = -1, .json = json});
	return 0;
}

static int on_packet(void *data, size_t len, int fd_in, void *arg)
{
	struct cluster_link *l = arg;
	const struct cluster_head *head = data;
	auto_fd int fd = fd_in;

	if (len < sizeof(*head))
		return -EPROTO;
	if (fd >= 0 && head->kind != CLUSTER_OPENED && head->kind != CLUSTER_ARRIVED)
		return -EPROTO;
	switch (head->kind) {
	case CLUSTER_WORD:
		return take_word(l, data, len);
	case CLUSTER_NODES:
		return take_nodes(l, data, len);
	case CLUSTER_OPENED:
		return take_opened(l, data, len, &fd);
	case CLUSTER_ARRIVED:
		return take_arrived(l, data, len, &fd);
	case CLUSTER_ANSWER:
		return take_answer(l, data, len);
	default: /* of another process: a number, not an enum */
		return -EPROTO;
	}
}

static void on_ended(int error, void *arg)
{
	struct cluster_link *l = arg;

	if (error)
		log_error("gateway.member_refused", "error='%s'", strerror(-error));
	packets_free(take_ptr(l->packets));
	fail_asks(l);
	if (l->told)
		l->told(NULL, l->told_arg);
}

void cluster_link_attach(struct cluster_link *l, struct loop *loop, int fd)
{
	static const struct packets_ops ops = {.packet = on_packet, .ended = on_ended};
	int r;

	if (fd < 0)
		return;
	if (l->packets)
		on_ended(0, l);
	l->loop = loop;
	r = packets_new(loop, fd, CLUSTER_MESSAGE_MAX, QUEUE_MAX, &ops, l, &l->packets);
	if (r < 0)
		log_error("gateway.member_not_watched", "error='%s'", strerror(-r));
}

void cluster_link_done(struct cluster_link *l)
{
	packets_free(take_ptr(l->packets));
	fail_asks(l);
	free(l->nodes);
	free(l->coming);
	tag_map_done(&l->tags);
	*l = (struct cluster_link){0};
}

static int by_number(const void *a, const void *b)
{
	const struct cluster_node_row *x = a, *y = b;

	return (x->node > y->node) - (x->node < y->node);
}

const struct cluster_node_row *cluster_link_node(const struct cluster_link *l, uint32_t node)
{
	struct cluster_node_row key = {.node = node};

	return l->n_nodes ? bsearch(&key, l->nodes, l->n_nodes, sizeof(key), by_number) : NULL;
}

static const char *why_not(int error)
{
	switch (error) {
	case -EPIPE:
		return "no member runs on this node";
	case -EMSGSIZE:
		return "it is too long";
	default:
		return "too much is asked of the member";
	}
}

/* Those that could not be sent. An answer may ask again. */
static void on_not_sent(struct loop *loop, void *arg)
{
	struct cluster_link *l = arg;

	(void)loop;
	for (size_t i = 0; i < l->n_asks;) {
		struct cluster_ask *ask = l->asks[i];

		if (ask->error == 0) {
			i++;
			continue;
		}
		l->asks[i] = l->asks[--l->n_asks];
		answer(ask, &(struct cluster_reply){
				    .error = ask->error, .message = why_not(ask->error), .fd = -1});
		i = 0;
	}
}

/* len 0: it cannot be sent. */
static void ask(struct cluster_link *l, void *message, size_t len, int fd, uint32_t answer_kind,
                cluster_reply_fn fn, void *arg)
{
	struct cluster_ask *new_ask = xnew0(struct cluster_ask);
	struct cluster_head *head = message;
	int r = len ? 0 : -EMSGSIZE;

	if (++l->last_seq == 0)
		l->last_seq = 1;
	head->seq = l->last_seq;
	if (r == 0)
		r = !l->packets                     ? -EPIPE
		    : l->n_asks >= CLUSTER_ASKS_MAX ? -EAGAIN
		                                    : packets_send(l->packets, message, len, fd);
	*new_ask = (struct cluster_ask){
		.seq = head->seq, .kind = answer_kind, .fn = fn, .arg = arg, .error = r};
	l->asks = xrealloc(l->asks, (l->n_asks + 1) * sizeof(struct cluster_ask *));
	l->asks[l->n_asks++] = new_ask;
	if (r < 0)
		loop_defer(l->loop, on_not_sent, l);
}

void cluster_link_open(struct cluster_link *l, uint32_t node, cluster_reply_fn fn, void *arg)
{
	struct cluster_open open = {.head = {.kind = CLUSTER_OPEN}, .node = node};

	ask(l, &open, sizeof(open), -1, CLUSTER_OPENED, fn, arg);
}

void cluster_link_call(struct cluster_link *l, const json_t *call, cluster_reply_fn fn, void *arg)
{
	cluster_link_call_with(l, call, -1, fn, arg);
}

void cluster_link_call_with(struct cluster_link *l, const json_t *call, int fd, cluster_reply_fn fn,
                            void *arg)
{
	auto_free char *text = json_dumps(call, JSON_COMPACT);
	const size_t len = text ? sizeof(struct cluster_call) + strlen(text) : 0;
	auto_free struct cluster_call *message = xcalloc(1, sizeof(*message) + len);

	message->head.kind = CLUSTER_CALL;
	if (text)
		memcpy(message->json, text, strlen(text));
	ask(l, message, len <= CLUSTER_MESSAGE_MAX ? len : 0, fd, CLUSTER_ANSWER, fn, arg);
}

void cluster_link_forget(struct cluster_link *l, const void *arg)
{
	for (size_t i = 0; i < l->n_asks; i++)
		if (l->asks[i]->arg == arg)
			l->asks[i]->fn = NULL;
}
