// SPDX-License-Identifier: Apache-2.0
/*
 * The resolver's side; the message may be forged. It must be a response with our id and our
 * question. Its answers are then searched once for each name of the CNAME chain, in any order.
 * Records that do not belong to the chain are ignored, and so are the sections after the answers.
 */
#include "net/packet/dns_wire.h"

#include <string.h>

#define CHAIN_MAX   8
#define RECORDS_MAX 128

struct record {
	struct dns_name owner;
	uint16_t type, class;
	uint32_t ttl_s;
	struct cursor data; /* into the message */
};

/* What one walk over the answers found for one name. */
struct found {
	bool has_alias;
	struct dns_name alias;
	uint32_t alias_ttl_s;
};

static int read_record(struct cursor *c, const uint8_t *message, struct record *ret)
{
	if (dns_read_name(c, message, &ret->owner) < 0)
		return -EINVAL;
	ret->type = cursor_u16(c);
	ret->class = cursor_u16(c);
	ret->ttl_s = cursor_u32(c);
	if (ret->ttl_s > INT32_MAX)
		ret->ttl_s = 0; /* RFC 2181 */
	ret->data = cursor_piece(c, cursor_u16(c));
	return c->failed ? -EINVAL : 0;
}

static int take_address(const struct record *record, struct dns_response *ret)
{
	const uint8_t *bytes = record->data.at;

	if (record->data.left != (record->type == DNS_A ? 4 : 16))
		return -EINVAL;
	if (ret->n_addresses == DNS_ADDRESSES_MAX)
		return 0;
	ret->addresses[ret->n_addresses++] =
		record->type == DNS_A ? address_from_v4(bytes) : address_from_v6(bytes);
	ret->ttl_s = MIN(ret->ttl_s, record->ttl_s);
	return 0;
}

static int take_alias(struct record *record, const uint8_t *message, struct found *found)
{
	struct dns_name alias;

	if (dns_read_name(&record->data, message, &alias) < 0 || record->data.left > 0)
		return -EINVAL;
	if (found->has_alias)
		return 0;
	*found = (struct found){true, alias, record->ttl_s};
	return 0;
}

/* Goes through all answers for what belongs to name. c is a copy. */
static int walk(struct cursor c, const uint8_t *message, size_t n, const struct dns_name *name,
                enum dns_type type, struct dns_response *ret, struct found *found)
{
	for (size_t i = 0; i < n; i++) {
		struct record record;
		int r = read_record(&c, message, &record);

		if (r < 0)
			return r;
		if (record.class != DNS_CLASS_IN || !dns_name_is_equal(&record.owner, name))
			continue;
		if (record.type == type)
			r = take_address(&record, ret);
		else if (record.type == DNS_CNAME)
			r = take_alias(&record, message, found);
		if (r < 0)
			return r;
	}
	return 0;
}

static int follow(const struct cursor *answers, const uint8_t *message, size_t n,
                  struct dns_name name, enum dns_type type, struct dns_response *ret)
{
	for (size_t step = 0; step < CHAIN_MAX; step++) {
		struct found found = {0};
		int r = walk(*answers, message, n, &name, type, ret, &found);

		if (r < 0 || ret->n_addresses > 0 || !found.has_alias)
			return r;
		name = found.alias;
		ret->ttl_s = MIN(ret->ttl_s, found.alias_ttl_s);
	}
	return -EINVAL;
}

int dns_response_parse(const void *data, size_t len, uint16_t id, const struct hostname *name,
                       enum dns_type type, struct dns_response *ret, const char **why)
{
	struct cursor c = {data, len, false};
	struct dns_head head = dns_read_head(&c);
	struct dns_response response = {.ttl_s = UINT32_MAX};
	struct dns_name asked = dns_name_from(name), question;

	if (c.failed || head.id != id || !(head.flags & DNS_IS_RESPONSE) ||
	    (head.flags & DNS_OPCODE) || head.n_questions != 1)
		return refuse_as(why, "is not the answer to this query");
	if (dns_read_name(&c, NULL, &question) < 0 || !dns_name_is_equal(&question, &asked) ||
	    cursor_u16(&c) != (uint16_t)type || cursor_u16(&c) != DNS_CLASS_IN)
		return refuse_as(why, "answers another question");
	response.rcode = (enum dns_rcode)(head.flags & DNS_RCODE);
	response.is_truncated = head.flags & DNS_IS_TRUNCATED;
	if (head.n_answers > RECORDS_MAX)
		return refuse_as(why, "has more than 128 answers");
	/* A truncated answer is asked for again, and an error has no addresses. */
	if (!response.is_truncated && response.rcode == DNS_NOERROR &&
	    follow(&c, data, head.n_answers, asked, type, &response) < 0)
		return refuse_as(why, "has malformed answers or aliases without an end");
	if (response.n_addresses == 0)
		response.ttl_s = 0;
	*ret = response;
	return 0;
}
