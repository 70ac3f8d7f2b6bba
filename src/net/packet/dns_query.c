// SPDX-License-Identifier: Apache-2.0
/*
 * The guest's side, and the queries to the resolver. A query is read to its last byte: one
 * question, and in the other sections at most one EDNS record. A query with more is refused, since
 * the extra bytes could be used as a tunnel.
 */
#include "net/packet/dns_wire.h"

#include <string.h>

#define UDP_LEAST  512
#define NAME_AT    (0xc000 | DNS_HEAD) /* a pointer to the question's name */
#define RECORD_MIN 12                  /* of an answer: pointer, type, class, TTL, length */

/* The one record that a query may carry. */
static int read_edns(struct cursor *c, struct dns_query *q)
{
	uint8_t root = cursor_u8(c);
	uint16_t type = cursor_u16(c), size = cursor_u16(c);
	uint32_t flags = cursor_u32(c);
	uint16_t len = cursor_u16(c);

	(void)cursor_bytes(c, len); /* options: cookies, padding and the like are not answered */
	if (c->failed || root != 0 || type != DNS_OPT || (flags >> 16 & 0xff) != 0)
		return -EINVAL;
	q->has_edns = true;
	q->udp_size = MAX(size, UDP_LEAST);
	return 0;
}

static int read_question(struct cursor *c, struct dns_query *q)
{
	const uint8_t *from = c->at;
	struct dns_name name;
	uint16_t class;

	if (dns_read_name(c, NULL, &name) < 0)
		return DNS_FORMERR;
	q->type = cursor_u16(c);
	class = cursor_u16(c);
	if (c->failed)
		return DNS_FORMERR;
	q->question_len = (uint16_t)(c->at - from);
	memcpy(q->question, from, q->question_len);
	q->has_name = dns_name_to(&name, &q->name) == 0;
	return class == DNS_CLASS_IN && q->has_name ? DNS_NOERROR : DNS_REFUSED;
}

int dns_query_parse(const void *data, size_t len, struct dns_query *ret)
{
	struct cursor c = {data, len, false};
	struct dns_head head = dns_read_head(&c);
	struct dns_query q = {.id = head.id, .udp_size = UDP_LEAST};
	int rcode;

	if (c.failed || (head.flags & DNS_IS_RESPONSE))
		return -EINVAL;
	q.opcode = (uint8_t)((head.flags & DNS_OPCODE) >> 11);
	q.wants_recursion = head.flags & DNS_WANTS_RECURSION;
	if (q.opcode != 0) {
		*ret = q;
		return DNS_NOTIMP;
	}
	if (head.n_questions != 1 || head.n_answers > 0 || head.n_authorities > 0 ||
	    head.n_additional > 1 || (head.flags & DNS_IS_TRUNCATED)) {
		*ret = q;
		return DNS_FORMERR;
	}
	rcode = read_question(&c, &q);
	if (rcode != DNS_FORMERR &&
	    ((head.n_additional > 0 && read_edns(&c, &q) < 0) || c.left > 0))
		rcode = DNS_FORMERR;
	*ret = q;
	return rcode;
}

static int put_address(struct buf *out, const struct address *a, uint32_t ttl_s)
{
	uint16_t len = a->bits / 8;
	int r = dns_put_u16(out, NAME_AT);

	if (r == 0)
		r = dns_put_u16(out, a->bits == 32 ? DNS_A : DNS_AAAA);
	if (r == 0)
		r = dns_put_u16(out, DNS_CLASS_IN);
	if (r == 0)
		r = dns_put_u32(out, ttl_s);
	if (r == 0)
		r = dns_put_u16(out, len);
	return r < 0 ? r : buf_append(out, a->bytes, len);
}

int dns_answer_write(struct buf *out, const struct dns_query *q, enum dns_rcode rcode,
                     const struct address *addresses, size_t n, uint32_t ttl_s, bool is_tcp)
{
	unsigned bits = q->type == DNS_A ? 32 : q->type == DNS_AAAA ? 128 : 0;
	size_t most = is_tcp ? DNS_TCP_MAX : MIN(q->udp_size, DNS_UDP_MAX);
	size_t before = out->len, size = DNS_HEAD + q->question_len + (q->has_edns ? 11U : 0);
	struct dns_head head = {.id = q->id, .n_questions = q->question_len > 0};
	int r;

	for (size_t i = 0; i < n && rcode == DNS_NOERROR; i++)
		head.n_answers = (uint16_t)(head.n_answers + (addresses[i].bits == bits));
	head.flags = (uint16_t)(DNS_IS_RESPONSE | q->opcode << 11 | DNS_HAS_RECURSION | rcode);
	if (q->wants_recursion)
		head.flags |= DNS_WANTS_RECURSION;
	if (size + head.n_answers * (RECORD_MIN + bits / 8) > most) {
		head.flags |= DNS_IS_TRUNCATED;
		head.n_answers = 0;
	}
	head.n_additional = q->has_edns;

	r = dns_put_head(out, &head);
	if (r == 0)
		r = buf_append(out, q->question, q->question_len);
	for (size_t i = 0; i < n && r == 0 && head.n_answers > 0; i++)
		if (addresses[i].bits == bits)
			r = put_address(out, &addresses[i], ttl_s);
	if (r == 0 && q->has_edns)
		r = dns_put_edns(out);
	if (r < 0)
		buf_truncate(out, before);
	return r;
}

int dns_query_write(struct buf *out, uint16_t id, const struct hostname *name, enum dns_type type)
{
	struct dns_head head = {
		.id = id, .flags = DNS_WANTS_RECURSION, .n_questions = 1, .n_additional = 1};
	struct dns_name wire = dns_name_from(name);
	size_t before = out->len;
	int r = dns_put_head(out, &head);

	if (r == 0)
		r = buf_append(out, wire.bytes, wire.len);
	if (r == 0)
		r = dns_put_u16(out, (uint16_t)type);
	if (r == 0)
		r = dns_put_u16(out, DNS_CLASS_IN);
	if (r == 0)
		r = dns_put_edns(out);
	if (r < 0)
		buf_truncate(out, before);
	return r;
}
