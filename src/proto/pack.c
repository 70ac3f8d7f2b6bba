// SPDX-License-Identifier: Apache-2.0
#include "proto/pack.h"

#include <endian.h>
#include <string.h>

static void put(struct pack *p, const void *data, size_t len)
{
	if (p->error == 0)
		p->error = buf_append(p->out, data, len);
}

void pack_u8(struct pack *p, uint8_t v)
{
	put(p, &v, sizeof(v));
}

void pack_u16(struct pack *p, uint16_t v)
{
	v = htole16(v);
	put(p, &v, sizeof(v));
}

void pack_u32(struct pack *p, uint32_t v)
{
	v = htole32(v);
	put(p, &v, sizeof(v));
}

void pack_u64(struct pack *p, uint64_t v)
{
	v = htole64(v);
	put(p, &v, sizeof(v));
}

void pack_bytes(struct pack *p, const void *data, size_t len)
{
	if (len > UINT32_MAX) {
		p->error = p->error < 0 ? p->error : -E2BIG;
		return;
	}
	pack_u32(p, (uint32_t)len);
	put(p, data, len);
}

void pack_str(struct pack *p, const char *s)
{
	pack_bytes(p, s ? s : "", s ? strlen(s) : 0);
}

/* Takes len bytes, the only way to move forward. NULL if there are fewer; then u is bad for
 * good. */
static const unsigned char *take(struct unpack *u, size_t len)
{
	const unsigned char *at = u->data;

	if (u->is_bad || len > u->len) {
		u->is_bad = true;
		return NULL;
	}
	u->data += len;
	u->len -= len;
	return at;
}

static uint64_t take_number(struct unpack *u, size_t size)
{
	const unsigned char *at = take(u, size);
	uint64_t v = 0;

	for (size_t i = 0; at && i < size; i++)
		v |= (uint64_t)at[i] << (8 * i);
	return v;
}

uint8_t unpack_u8(struct unpack *u)
{
	return (uint8_t)take_number(u, 1);
}

uint16_t unpack_u16(struct unpack *u)
{
	return (uint16_t)take_number(u, 2);
}

uint32_t unpack_u32(struct unpack *u)
{
	return (uint32_t)take_number(u, 4);
}

uint64_t unpack_u64(struct unpack *u)
{
	return take_number(u, 8);
}

const void *unpack_bytes(struct unpack *u, size_t max, size_t *ret_len)
{
	size_t len = unpack_u32(u);
	const unsigned char *at;

	if (len > max)
		u->is_bad = true;
	at = take(u, len);
	*ret_len = at ? len : 0;
	return at;
}

char *unpack_str(struct unpack *u, size_t max)
{
	size_t len;
	const void *at = unpack_bytes(u, max, &len);

	if (at && memchr(at, '\0', len))
		u->is_bad = true;
	return u->is_bad ? NULL : xstrndup(at, len);
}

int unpack_end(const struct unpack *u)
{
	return u->is_bad || u->len > 0 ? -EPROTO : 0;
}
