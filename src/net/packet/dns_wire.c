// SPDX-License-Identifier: Apache-2.0
#include "net/packet/dns_wire.h"

#include <string.h>

#define LABEL_MAX 63
#define POINTER   0xc0

struct dns_head dns_read_head(struct cursor *c)
{
	struct dns_head h;

	h.id = cursor_u16(c);
	h.flags = cursor_u16(c);
	h.n_questions = cursor_u16(c);
	h.n_answers = cursor_u16(c);
	h.n_authorities = cursor_u16(c);
	h.n_additional = cursor_u16(c);
	return h;
}

int dns_put_u16(struct buf *out, uint16_t value)
{
	uint8_t bytes[] = {(uint8_t)(value >> 8), (uint8_t)value};

	return buf_append(out, bytes, sizeof(bytes));
}

int dns_put_u32(struct buf *out, uint32_t value)
{
	int r = dns_put_u16(out, (uint16_t)(value >> 16));

	return r < 0 ? r : dns_put_u16(out, (uint16_t)value);
}

int dns_put_head(struct buf *out, const struct dns_head *head)
{
	uint16_t words[] = {head->id,        head->flags,         head->n_questions,
	                    head->n_answers, head->n_authorities, head->n_additional};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words) && r == 0; i++)
		r = dns_put_u16(out, words[i]);
	return r;
}

int dns_put_edns(struct buf *out)
{
	/* The root's name, the type, our size, no extended code, version 0, no flags, no options.
	 */
	static const uint8_t record[] = {
		0, 0, DNS_OPT, DNS_UDP_MAX >> 8, DNS_UDP_MAX & 0xff, 0, 0, 0, 0, 0, 0};

	return buf_append(out, record, sizeof(record));
}

/* Appends labels from c until the end of the name or a pointer. 1: a pointer, its target in *to. */
static int read_labels(struct cursor *c, struct dns_name *name, size_t *to)
{
	for (;;) {
		uint8_t n = cursor_u8(c);
		const uint8_t *label;

		if (c->failed)
			return -EINVAL;
		if ((n & POINTER) == POINTER) {
			*to = (size_t)(n & ~POINTER) << 8 | cursor_u8(c);
			return c->failed ? -EINVAL : 1;
		}
		label = cursor_bytes(c, n);
		if (n > LABEL_MAX || !label || (size_t)name->len + 1 + n > DNS_NAME_MAX)
			return -EINVAL;
		name->bytes[name->len++] = n;
		for (size_t i = 0; i < n; i++) {
			uint8_t byte = label[i];

			name->bytes[name->len++] =
				(uint8_t)(byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
		}
		if (n == 0)
			return 0;
	}
}

int dns_read_name(struct cursor *c, const uint8_t *message, struct dns_name *ret)
{
	struct dns_name name = {.len = 0};
	struct cursor at = *c;
	size_t limit = message ? (size_t)(c->at - message) : 0, to = 0;
	bool is_first = true;
	int r;

	while ((r = read_labels(&at, &name, &to)) == 1) {
		if (is_first)
			*c = at;
		is_first = false;
		if (!message || to >= limit)
			return -EINVAL;
		/* It must end before the place where the last pointer led. */
		at = (struct cursor){message + to, limit - to, false};
		limit = to;
	}
	if (r < 0)
		return r;
	if (is_first)
		*c = at;
	*ret = name;
	return 0;
}

bool dns_name_is_equal(const struct dns_name *a, const struct dns_name *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

struct dns_name dns_name_from(const struct hostname *name)
{
	struct dns_name d = {.len = 0};
	const char *label = name->text;

	for (;;) {
		size_t n = strcspn(label, ".");

		d.bytes[d.len++] = (uint8_t)n;
		memcpy(d.bytes + d.len, label, n);
		d.len = (uint8_t)(d.len + n);
		if (label[n] == '\0')
			break;
		label += n + 1;
	}
	d.bytes[d.len++] = 0;
	return d;
}

int dns_name_to(const struct dns_name *name, struct hostname *ret)
{
	char text[DNS_NAME_MAX];
	size_t len = 0;

	for (size_t at = 0; name->bytes[at] > 0; at += 1U + name->bytes[at]) {
		size_t n = name->bytes[at];

		/* A label with a dot would be read as two labels. */
		if (memchr(name->bytes + at + 1, '.', n))
			return -EINVAL;
		if (len > 0)
			text[len++] = '.';
		memcpy(text + len, name->bytes + at + 1, n);
		len += n;
	}
	return hostname_parse(text, len, ret, NULL);
}
