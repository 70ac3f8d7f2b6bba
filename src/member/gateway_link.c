// SPDX-License-Identifier: Apache-2.0
#include "member/gateway_link.h"

#include "base/fd.h"
#include "base/log.h"
#include "loop/packets.h"

#include <stdio.h>
#include <string.h>

#define QUEUE_MAX (CLUSTER_ASKS_MAX + 16)

struct gateway_link {
	struct packets *packets;
	const struct gateway_link_ops *ops;
	void *arg;
	struct cluster_word word;
	struct cluster_node_row *nodes;
	size_t n_nodes, n_told; /* rows; told < n_nodes: the rest is due */
	bool is_word_due;
};

static bool tell_some_nodes(struct gateway_link *l)
{
	const size_t n = MIN(l->n_nodes - l->n_told, CLUSTER_NODES_MAX);
	const size_t len = sizeof(struct cluster_nodes) + n * sizeof(l->nodes[0]);
	auto_free struct cluster_nodes *m = xcalloc(1, len);

	*m = (struct cluster_nodes){.head = {.kind = CLUSTER_NODES},
	                            .first = (uint32_t)l->n_told,
	                            .n = (uint32_t)n,
	                            .total = (uint32_t)l->n_nodes};
	memcpy(m->rows, l->nodes + l->n_told, n * sizeof(l->nodes[0]));
	if (packets_send(l->packets, m, len, -1) < 0)
		return false;
	l->n_told += n;
	return packets_is_idle(l->packets);
}

/* One thing at a time, so that what is due stays the newest. */
static void tell(struct gateway_link *l)
{
	if (!packets_is_idle(l->packets))
		return; /* on_drained() */
	if (l->is_word_due) {
		struct cluster_told m = {.head = {.kind = CLUSTER_WORD}, .word = l->word};

		l->is_word_due = packets_send(l->packets, &m, sizeof(m), -1) < 0;
	}
	while (packets_is_idle(l->packets) && l->n_told < l->n_nodes && tell_some_nodes(l))
		;
}

static void on_drained(void *arg)
{
	struct gateway_link *l = arg;

	packets_pause(l->packets, false);
	tell(l);
}

static int take_call(struct gateway_link *l, const struct cluster_call *m, size_t len, int *fd)
{
	auto_json json_t *call = NULL;
	const char *name;
	struct err err;

	if (len <= sizeof(*m) || json_parse(m->json, len - sizeof(*m), &call, &err) < 0)
		return -EPROTO;
	name = json_string_value(json_object_get(call, "call"));
	if (!name)
		return -EPROTO;
	l->ops->call(m->head.seq, name, call, take_fd(fd), l->arg);
	return 0;
}

static int on_packet(void *data, size_t len, int fd_in, void *arg)
{
	struct gateway_link *l = arg;
	const struct cluster_open *open = data;
	const struct cluster_head *head = data;
	auto_fd int fd = fd_in;

	if (len < sizeof(*head) || head->seq == 0)
		return -EPROTO;
	if (head->kind == CLUSTER_CALL)
		return take_call(l, data, len, &fd);
	if (fd >= 0 || head->kind != CLUSTER_OPEN || len != sizeof(*open) || open->node == 0)
		return -EPROTO;
	l->ops->open(head->seq, open->node, l->arg);
	return 0;
}

static void on_ended(int error, void *arg)
{
	const struct gateway_link *l = arg;

	if (error)
		log_error("cluster.gateway_refused", "error='%s'", strerror(-error));
	l->ops->ended(l->arg);
}

int gateway_link_new(struct loop *loop, int fd, const struct gateway_link_ops *ops, void *arg,
                     struct gateway_link **ret)
{
	static const struct packets_ops of_packets = {
		.packet = on_packet, .drained = on_drained, .ended = on_ended};
	struct gateway_link *l = xnew0(struct gateway_link);
	int r;

	l->ops = ops;
	l->arg = arg;
	r = packets_new(loop, fd, CLUSTER_MESSAGE_MAX, QUEUE_MAX, &of_packets, l, &l->packets);
	if (r < 0)
		free(l);
	else
		*ret = l;
	return r;
}

void gateway_link_free(struct gateway_link *l)
{
	if (!l)
		return;
	packets_free(l->packets);
	free(l->nodes);
	free(l);
}

void gateway_link_word(struct gateway_link *l, const struct cluster_word *word)
{
	l->word = *word;
	l->is_word_due = true;
	tell(l);
}

void gateway_link_nodes(struct gateway_link *l, const struct cluster_node_row *rows, size_t n)
{
	if (n == l->n_nodes && l->n_told == n &&
	    (n == 0 || memcmp(rows, l->nodes, n * sizeof(*rows)) == 0))
		return; /* it knows */
	free(l->nodes);
	l->nodes = xnew0n(struct cluster_node_row, n + 1);
	if (n)
		memcpy(l->nodes, rows, n * sizeof(*rows));
	l->n_nodes = n;
	l->n_told = 0;
	tell(l);
}

/* An answer is never left out: who asks waits for it. */
static void send_answer(struct gateway_link *l, const void *data, size_t len, int fd)
{
	int r = packets_send(l->packets, data, len, fd);

	if (r < 0 && r != -EPIPE) {
		log_error("cluster.answer_lost", "error='%s'", strerror(-r));
		l->ops->ended(l->arg);
	} else if (!packets_is_idle(l->packets)) {
		packets_pause(l->packets, true);
	}
}

void gateway_link_opened(struct gateway_link *l, uint32_t seq, int error, const char *message,
                         int fd)
{
	struct cluster_opened m = {.head = {.kind = CLUSTER_OPENED, .seq = seq}, .error = error};

	(void)snprintf(m.message, sizeof(m.message), "%s", message);
	send_answer(l, &m, sizeof(m), error ? -1 : fd);
}

int gateway_link_arrived(struct gateway_link *l, uint32_t from, int fd)
{
	struct cluster_arrived m = {.head = {.kind = CLUSTER_ARRIVED}, .from = from};

	return packets_is_idle(l->packets) ? packets_send(l->packets, &m, sizeof(m), fd) : -EAGAIN;
}

void gateway_link_answer(struct gateway_link *l, uint32_t seq, const json_t *answer)
{
	auto_free char *text = json_dumps(answer, JSON_COMPACT);
	const size_t text_len = text ? strlen(text) : 0;
	const size_t len = sizeof(struct cluster_call) + text_len;
	auto_free struct cluster_call *m = xcalloc(1, len);

	if (!text || len > CLUSTER_MESSAGE_MAX) {
		gateway_link_refuse(l, seq, "internal", "the answer is too long");
		return;
	}
	m->head = (struct cluster_head){.kind = CLUSTER_ANSWER, .seq = seq};
	memcpy(m->json, text, text_len);
	send_answer(l, m, len, -1);
}

void gateway_link_refuse(struct gateway_link *l, uint32_t seq, const char *code,
                         const char *message)
{
	auto_json json_t *refusal =
		json_pack("{s{ss ss}}", "error", "code", code, "message", message);

	gateway_link_answer(l, seq, refusal);
}
