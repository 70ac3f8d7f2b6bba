// SPDX-License-Identifier: Apache-2.0
/*
 * A question is judged by its name alone; the resolver is asked only if a rule could allow the
 * name. A denied name gets an unused address, so that programs dial it and are told why (conn.c): a
 * DNS error would look temporary, and programs would retry for minutes. Each address of the answer
 * is judged as if it had been dialled, so a name that leads to a closed range has no address here.
 * Types other than A and AAAA have no answer.
 */
#include "wall/stub.h"

#include "base/id.h"
#include "wall/group/group.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>

#define DATAGRAMS_A_TURN 16
#define QUERY_MAX        512 /* enough for a question, also with EDNS */
#define QUESTIONS_MAX    64  /* of one door under way */
#define MADE_UP_TTL_S    60
#define MEMBER_TTL_S     5 /* another may have the name soon */
#define QUERIES_A_SECOND 100
#define QUERIES_AT_ONCE  400
#define ANSWER_TTL_MAX_S 60 /* so that a changed policy is soon seen */

struct question {
	struct door *door;
	struct dns_query query;
	struct resolver_ask *ask;
	uint64_t started_us;
	struct stub_asker asker;
	struct list link;
};

static struct judge_decision judge_name(const struct door *door, const struct hostname *name,
                                        const struct address *a)
{
	const struct judge_facts facts = {
		.name_state = NAME_KNOWN, .name = name, .dialled = a, .resolved = a};

	return judge(door->policy, &door->all->site, &facts);
}

static void write_answer(const struct stub_asker *asker, const struct dns_query *query,
                         enum dns_rcode rcode, const struct dns_response *response)
{
	struct buf out = BUF_INIT(DNS_TCP_MAX);

	if (dns_answer_write(&out, query, rcode, response ? response->addresses : NULL,
	                     response ? response->n_addresses : 0,
	                     response ? MIN(response->ttl_s, ANSWER_TTL_MAX_S) : 0,
	                     asker->is_tcp) < 0)
		buf_truncate(&out, 0); /* as good as none */
	asker->answer(&out, asker);
	buf_done(&out);
}

static void question_free(struct question *q)
{
	list_remove(&q->link);
	q->door->n_questions--;
	free(q);
}

void stub_cancel(struct question *q)
{
	if (!q)
		return;
	resolver_cancel(q->ask);
	question_free(q);
}

void stub_cancel_all(struct door *door)
{
	struct question *q;

	while ((q = list_first(&door->questions, struct question, link)))
		stub_cancel(q);
}

static void record(const struct question *q, const struct judge_decision *d,
                   enum wall_verdict verdict, const struct address *a, const char *why)
{
	struct door *door = q->door;

	door_record(door, &(struct door_record){
				  .verdict = verdict,
				  .rule = d->rule,
				  .name = &q->query.name,
				  .address = a,
				  .is_dns = true,
				  .why = why,
				  .took_us = loop_now_us(door->all->loop) - q->started_us,
			  });
}

/* Keeps those that may be dialled. */
static void filter(const struct question *q, struct dns_response *response)
{
	size_t kept = 0;

	for (size_t i = 0; i < response->n_addresses; i++) {
		const struct address a = response->addresses[i];
		struct judge_decision d = judge_name(q->door, &q->query.name, &a);

		if (d.outcome != JUDGE_DENY)
			response->addresses[kept++] = a;
		else
			record(q, &d, WALL_DENIED, &a, door_why(&d));
	}
	response->n_addresses = kept;
}

static void on_response(const struct dns_response *response, void *arg)
{
	struct question *q = arg;
	struct dns_query query = q->query;
	struct dns_response kept;
	struct stub_asker asker = q->asker;

	q->ask = NULL;
	if (response) {
		kept = *response;
		filter(q, &kept);
	}
	question_free(q);
	write_answer(&asker, &query, response ? response->rcode : DNS_SERVFAIL,
	             response ? &kept : NULL);
}

static struct question *question_new(struct door *door, const struct dns_query *query,
                                     const struct stub_asker *asker)
{
	struct question *q = xnew0(struct question);

	*q = (struct question){.door = door, .query = *query, .asker = *asker};
	q->started_us = loop_now_us(door->all->loop);
	list_append(&door->questions, &q->link);
	door->n_questions++;
	return q;
}

/*
 * Addresses that belong to nobody (RFC 2544). A guest can dial them for a name that rules lead to a
 * proxy, a forward or a fixed reply, or for a denied name. No resolver is asked about these names,
 * so they need not exist.
 */
static const uint8_t led_elsewhere[4] = {198, 18, 0, 1}, denied[4] = {198, 18, 0, 2};
/* A name with a key for SSH has one of its own, since nothing else tells the name: the place of the
 * name is the last byte. */
static const uint8_t first_ssh[4] = {198, 18, 1, 0};
static_assert(POLICY_SSH_HOSTS <= UINT8_MAX, "a name for SSH has no address");

static void answer_made_up(const struct dns_query *query, const struct stub_asker *asker,
                           const uint8_t address[4], uint32_t ttl_s)
{
	const struct dns_response response = {
		.addresses = {address_from_v4(address)}, .n_addresses = 1, .ttl_s = ttl_s};

	write_answer(asker, query, DNS_NOERROR, query->type == DNS_A ? &response : NULL);
}

bool stub_has_denied(const struct address *dialled)
{
	const struct address a = address_from_v4(denied);

	return address_is_equal(dialled, &a);
}

const struct hostname *stub_ssh_name(const struct door *door, const struct address *dialled,
                                     uint16_t port)
{
	if (dialled->bits != 32 || memcmp(dialled->bytes, first_ssh, 3) != 0)
		return NULL;
	return policy_ssh_name(door->policy, dialled->bytes[3], port);
}

/* Whether it was answered. */
static bool answer_ssh(struct door *door, const struct dns_query *query,
                       const struct stub_asker *asker)
{
	const ssize_t place = policy_ssh_place(door->policy, &query->name);
	uint8_t address[4];

	if (place < 0)
		return false;
	memcpy(address, first_ssh, sizeof(address));
	address[3] = (uint8_t)place;
	answer_made_up(query, asker, address, MADE_UP_TTL_S);
	return true;
}

/* Whether it was answered. The policy is not asked: a member is reached whatever it says. */
static bool answer_member(const struct door *door, const struct dns_query *query,
                          const struct stub_asker *asker)
{
	const struct group_member *m = group_find_alias(door, &query->name);
	uint8_t address[4];

	if (!m)
		return false;
	group_address(door, m, address);
	answer_made_up(query, asker, address, MEMBER_TTL_S);
	return true;
}

/* NULL: answered. */
static struct question *ask_allowed(struct door *door, const struct dns_query *query,
                                    const struct stub_asker *asker)
{
	struct judge_decision d = judge_name(door, &query->name, NULL);
	struct question *q = question_new(door, query, asker);
	bool has_addresses = query->type == DNS_A || query->type == DNS_AAAA;

	if (d.outcome != JUDGE_DENY && has_addresses && answer_ssh(door, query, asker)) {
		question_free(q);
		return NULL;
	}
	if (d.outcome != JUDGE_DENY && has_addresses &&
	    policy_leads_elsewhere(door->policy, &query->name)) {
		question_free(q);
		answer_made_up(query, asker, led_elsewhere, MADE_UP_TTL_S);
		return NULL;
	}
	if (d.outcome != JUDGE_DENY && has_addresses) {
		q->ask = resolver_ask(door->all->resolver, &query->name, (enum dns_type)query->type,
		                      on_response, q);
		return q;
	}
	if (d.outcome == JUDGE_DENY)
		record(q, &d, WALL_DENIED, NULL, door_why(&d));
	question_free(q);
	if (d.outcome == JUDGE_DENY && has_addresses)
		answer_made_up(query, asker, denied, /* ttl_s= */ 0);
	else
		write_answer(asker, query, d.outcome == JUDGE_DENY ? DNS_REFUSED : DNS_NOERROR,
		             NULL);
	return NULL;
}

struct question *stub_ask(struct door *door, const void *data, size_t len,
                          const struct stub_asker *asker, bool *ret_dropped)
{
	struct dns_query query;
	int rcode = dns_query_parse(data, len, &query);
	bool has_room = door->n_questions < QUESTIONS_MAX &&
	                bucket_take(&door->dns_rate, loop_now_us(door->all->loop), QUERIES_A_SECOND,
	                            QUERIES_AT_ONCE);

	*ret_dropped = rcode < 0;
	if (rcode < 0)
		return NULL;
	if (rcode == DNS_NOERROR && (!has_room || !query.has_name))
		rcode = DNS_REFUSED;
	if (rcode == DNS_NOERROR && answer_member(door, &query, asker))
		return NULL;
	if (rcode == DNS_NOERROR)
		return ask_allowed(door, &query, asker);
	write_answer(asker, &query, (enum dns_rcode)rcode, NULL);
	return NULL;
}

static void send_datagram(const struct buf *answer, const struct stub_asker *asker)
{
	(void)!sendto(asker->fd, answer->data, answer->len, MSG_DONTWAIT | MSG_NOSIGNAL,
	              (const struct sockaddr *)&asker->from, asker->from_len);
}

static bool read_one(struct door *door, int fd)
{
	struct stub_asker asker = {.answer = send_datagram, .fd = fd};
	char data[QUERY_MAX];
	bool is_dropped;
	ssize_t n;

	asker.from_len = sizeof(asker.from);
	n = recvfrom(fd, data, sizeof(data), MSG_DONTWAIT | MSG_TRUNC,
	             (struct sockaddr *)&asker.from, &asker.from_len);
	if (n >= 0 && n <= (ssize_t)sizeof(data))
		(void)stub_ask(door, data, (size_t)n, &asker, &is_dropped);
	return n >= 0;
}

void stub_on_datagrams(struct door *door, int fd)
{
	for (int i = 0; i < DATAGRAMS_A_TURN; i++)
		if (!read_one(door, fd))
			break;
}
