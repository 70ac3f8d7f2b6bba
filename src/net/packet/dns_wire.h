// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What queries and responses share: heads, and names as they are on the wire. */
#include "net/packet/cursor.h"
#include "net/packet/dns.h"

#define DNS_CLASS_IN 1
#define DNS_HEAD     12

enum dns_flag {
	DNS_IS_RESPONSE = 0x8000,
	DNS_IS_TRUNCATED = 0x0200,
	DNS_WANTS_RECURSION = 0x0100,
	DNS_HAS_RECURSION = 0x0080,
	DNS_OPCODE = 0x7800,
	DNS_RCODE = 0x000f,
};

struct dns_head {
	uint16_t id, flags;
	uint16_t n_questions, n_answers, n_authorities, n_additional;
};

/* Labels with their lengths, in small letters, with the empty label at the end. */
struct dns_name {
	uint8_t bytes[DNS_NAME_MAX];
	uint8_t len;
};

struct dns_head dns_read_head(struct cursor *c);
must_check int dns_put_head(struct buf *out, const struct dns_head *head);
must_check int dns_put_u16(struct buf *out, uint16_t value);
must_check int dns_put_u32(struct buf *out, uint32_t value);
/* The pseudo record that says how much we take by UDP. */
must_check int dns_put_edns(struct buf *out);

/*
 * Reads the name at the front of c, a cursor into message. Pointers are followed if message is not
 * NULL. Each must lead to a place before the last one, so there can be no loop.
 */
must_check int dns_read_name(struct cursor *c, const uint8_t *message, struct dns_name *ret);
bool dns_name_is_equal(const struct dns_name *a, const struct dns_name *b);
struct dns_name dns_name_from(const struct hostname *name);
/* -EINVAL if it is not a host name: the root, or a name with bytes that are not allowed, such as a
 * dot in a label. */
must_check int dns_name_to(const struct dns_name *name, struct hostname *ret);
