// SPDX-License-Identifier: Apache-2.0
#include "wall/door.h"

#include "wall/conn.h"
#include "wall/stub.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define DNS_FIRST        2 /* of the sockets: those before it are listeners */
#define RECORDS_A_SECOND 20
#define RECORDS_AT_ONCE  100

static void on_socket(struct loop *loop, uint32_t events, void *arg)
{
	struct door_socket_io *s = arg;
	struct door *door = s->door;

	(void)loop;
	(void)events;
	if (s - door->sockets >= DNS_FIRST)
		stub_on_datagrams(door, s->fd);
	else
		conn_accept(door, s->fd);
}

struct door *doors_find(struct doors *all, const char *id)
{
	struct door *door = NULL;

	HASH_FIND_STR(all->by_id, id, door);
	return door;
}

int doors_open(struct doors *all, const char *id, struct policy *policy, int fds[WALL_SOCKETS],
               struct door **ret)
{
	struct door *door = doors_find(all, id);
	int r = 0;

	if (door)
		doors_close(door);
	door = xnew0(struct door);
	door->all = all;
	door->policy = policy;
	(void)snprintf(door->id, sizeof(door->id), "%s", id);
	list_init(&door->conns);
	list_init(&door->questions);
	pace_init(&door->in_pace, all->loop, policy->bytes_per_second);
	pace_init(&door->out_pace, all->loop, policy->bytes_per_second);
	HASH_ADD_STR(all->by_id, id, door);
	for (size_t i = 0; i < WALL_SOCKETS; i++) {
		struct door_socket_io *s = &door->sockets[i];

		s->door = door;
		s->fd = take_fd(&fds[i]);
		if (s->fd >= 0 && r == 0)
			r = loop_io_add(all->loop, s->fd, EPOLLIN, on_socket, s, &s->io);
	}
	if (r < 0)
		doors_close(door);
	else
		*ret = door;
	return r;
}

void door_set_policy(struct door *door, struct policy *policy)
{
	struct policy *old = door->policy;

	door->policy = policy;
	pace_set(&door->in_pace, policy->bytes_per_second);
	pace_set(&door->out_pace, policy->bytes_per_second);
	conn_judge_again(door);
	policy_free(old);
	learner_free(take_ptr(door->learner));
}

static void on_free(struct loop *loop, void *arg)
{
	struct door *door = arg;

	(void)loop;
	policy_free(door->policy);
	issuer_free(door->issuer);
	learner_free(door->learner);
	free(door);
}

void doors_close(struct door *door)
{
	for (size_t i = 0; i < WALL_SOCKETS; i++) {
		loop_io_removep(&door->sockets[i].io);
		if (door->sockets[i].fd >= 0)
			(void)close(take_fd(&door->sockets[i].fd));
	}
	conn_cut_all(door);
	stub_cancel_all(door);
	pace_done(&door->in_pace);
	pace_done(&door->out_pace);
	door_tell_bytes(door);
	HASH_DEL(door->all->by_id, door);
	loop_defer(door->all->loop, on_free, door);
}

struct issuer *door_issuer(struct door *door)
{
	const struct secure *secure = door->all->secure;

	if (!secure)
		return NULL;
	if (!policy_opens_tls(door->policy))
		return secure_refusals(secure);
	if (!door->issuer && secure_make_issuer(secure, door->id, &door->issuer) < 0)
		return NULL;
	return door->issuer;
}

static struct wall_head head_of(const struct door *door, enum wall_op op)
{
	struct wall_head head = {.magic = WALL_MAGIC, .op = op};

	memcpy(head.id, door->id, sizeof(head.id));
	return head;
}

void door_count(struct door *door, uint64_t in_bytes, uint64_t out_bytes)
{
	door->in_bytes += in_bytes;
	door->out_bytes += out_bytes;
	pace_spend(&door->in_pace, in_bytes);
	pace_spend(&door->out_pace, out_bytes);
}

void door_tell_bytes(struct door *door)
{
	struct wall_bytes m = {.in_bytes = door->in_bytes, .out_bytes = door->out_bytes};

	if (m.in_bytes == 0 && m.out_bytes == 0)
		return;
	m.head = head_of(door, WALL_BYTES);
	if (door->all->send(&m, sizeof(m), door->all->send_arg) < 0)
		return; /* the next time */
	door->in_bytes = door->out_bytes = 0;
}

void door_record(struct door *door, const struct door_record *record)
{
	struct wall_decision m = {
		.verdict = record->verdict,
		.rule = record->rule == JUDGE_NO_RULE ? WALL_NO_RULE : (uint32_t)record->rule,
		.protocol = record->protocol,
		.port = record->port,
		.is_dns = record->is_dns,
		.is_recorded = record->is_recorded,
		.in_bytes = record->in_bytes,
		.out_bytes = record->out_bytes,
		.took_us = record->took_us,
		.n_left_out = door->n_left_out,
	};

	m.head = head_of(door, WALL_DECISION);
	if (record->name)
		(void)snprintf(m.name, sizeof(m.name), "%s", record->name->text);
	if (record->address)
		address_format(record->address, m.address);
	(void)snprintf(m.why, sizeof(m.why), "%s", record->why);
	if (bucket_take(&door->record_rate, loop_now_us(door->all->loop), RECORDS_A_SECOND,
	                RECORDS_AT_ONCE) &&
	    door->all->send(&m, sizeof(m), door->all->send_arg) >= 0)
		door->n_left_out = 0;
	else
		door->n_left_out++;
}

void door_learn(struct door *door, const struct hostname *name, const struct address *address,
                enum judge_dial dial, uint16_t port)
{
	struct wall_decision m = {.verdict = WALL_ALLOWED, .rule = WALL_NO_RULE, .port = port};
	bool is_closed = range_kind_of(&door->all->site, address) != RANGE_PUBLIC;

	if (door->policy->mode != POLICY_RECORD)
		return;
	if (is_closed && dial == DIAL_ADDRESS)
		name = NULL; /* it need not lead there */
	if (name && !is_closed)
		address = NULL;
	if (!door->learner)
		door->learner = learner_new();
	if (!learner_add(door->learner, name, address, port))
		return;
	m.head = head_of(door, WALL_LEARNT);
	if (name)
		(void)snprintf(m.name, sizeof(m.name), "%s", name->text);
	if (address)
		address_format(address, m.address);
	if (door->all->send(&m, sizeof(m), door->all->send_arg) < 0)
		learner_free(take_ptr(door->learner)); /* told again when it is seen again */
}

const char *door_why(const struct judge_decision *d)
{
	if (d->is_other_host)
		return "the request is for another host";
	if (d->closed != RANGE_PUBLIC)
		return range_kind_name(d->closed);
	return d->rule == JUDGE_NO_RULE ? JUDGE_NO_RULE_WHY : "a rule denies it";
}
