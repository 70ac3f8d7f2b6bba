// SPDX-License-Identifier: Apache-2.0
/*
 * Records are read byte by byte as they come, and their payload is collected. Once the message is
 * as long as its head says, it is parsed in one go. Each byte is looked at once, however small the
 * segments are, and at most CLIENTHELLO_MAX bytes are kept.
 *
 * The parser is as strict as a server would have to be for both to see the same name: every length
 * fits exactly, no extension comes twice, and server_name holds one name of the one type there is.
 * Bytes after the message in the same record are refused: servers read them in different ways.
 */
#include "net/packet/clienthello.h"

#include "net/match/address.h"
#include "net/packet/cursor.h"

#include <string.h>

#define RECORD_HANDSHAKE   22
#define RECORD_MAX         16384
#define HANDSHAKE_HEAD     4
#define HELLO_CLIENT       1
#define EXTENSION_NAME     0
#define EXTENSION_ALPN     16
#define EXTENSION_EARLY    42
#define EXTENSION_VERSIONS 43
#define EXTENSION_ECH      0xfe0d
#define NAME_TYPE_HOST     0

void clienthello_init(struct clienthello_reader *r, struct clienthello *ret)
{
	*r = (struct clienthello_reader){.ret = ret};
	buf_init(&r->message, CLIENTHELLO_MAX);
}

void clienthello_done(struct clienthello_reader *r)
{
	buf_done(&r->message);
}

/* A list after a length of one or two bytes; it must fill the rest of c. */
static struct cursor whole_list(struct cursor *c, size_t length_size)
{
	size_t n = length_size == 1 ? cursor_u8(c) : cursor_u16(c);
	struct cursor list = cursor_piece(c, n);

	if (c->left > 0 || n == 0)
		list.failed = true;
	return list;
}

static int read_name(struct cursor *c, struct clienthello *ret, const char **why)
{
	struct cursor list = whole_list(c, 2);
	struct address address;
	const char *name;
	uint8_t type = cursor_u8(&list);
	size_t n = cursor_u16(&list);

	name = (const char *)cursor_bytes(&list, n);
	if (list.failed || type != NAME_TYPE_HOST || list.left > 0)
		return refuse_as(why, "names its server in no form or in several");
	if (address_parse(name, n, &address, NULL) == 0)
		return refuse_as(why, "names its server by an address");
	if (hostname_parse(name, n, &ret->name, why) < 0)
		return -EINVAL;
	ret->has_name = true;
	return 0;
}

static int read_alpn(struct cursor *c, struct clienthello *ret, const char **why)
{
	struct cursor list = whole_list(c, 2);

	while (list.left > 0 && !list.failed) {
		size_t n = cursor_u8(&list);
		const uint8_t *name = cursor_bytes(&list, n);

		if (!name || n == 0)
			return refuse_as(why, "has a malformed list of protocols");
		ret->offers_http1 |= n == 8 && memcmp(name, "http/1.1", 8) == 0;
		ret->offers_h2 |= n == 2 && memcmp(name, "h2", 2) == 0;
	}
	ret->has_alpn = true;
	return list.failed ? refuse_as(why, "has a malformed list of protocols") : 0;
}

static int read_versions(struct cursor *c, struct clienthello *ret, const char **why)
{
	struct cursor list = whole_list(c, 1);
	uint16_t newest = 0;

	while (list.left > 0 && !list.failed) {
		uint16_t version = cursor_u16(&list);

		/* Other versions are GREASE or drafts. */
		if (version >= 0x0300 && version <= 0x0304)
			newest = MAX(newest, version);
	}
	if (list.failed || newest == 0)
		return refuse_as(why, "offers no version of TLS");
	ret->version = newest;
	return 0;
}

static int read_extension(uint16_t type, struct cursor body, struct clienthello *ret,
                          const char **why)
{
	switch (type) {
	case EXTENSION_NAME:
		return read_name(&body, ret, why);
	case EXTENSION_ALPN:
		return read_alpn(&body, ret, why);
	case EXTENSION_VERSIONS:
		return read_versions(&body, ret, why);
	case EXTENSION_ECH:
		ret->has_ech = true;
		return 0;
	case EXTENSION_EARLY:
		ret->has_early_data = true;
		return 0;
	default:
		return 0;
	}
}

static int read_extensions(struct cursor *c, struct clienthello *ret, const char **why)
{
	uint64_t seen[65536 / 64] = {0};
	size_t n = cursor_u16(c);
	struct cursor list = cursor_piece(c, n);

	if (list.failed || c->left > 0)
		return refuse_as(why, "has extensions that do not fit");
	while (list.left > 0) {
		uint16_t type = cursor_u16(&list);
		size_t len = cursor_u16(&list);
		struct cursor body = cursor_piece(&list, len);

		if (body.failed)
			return refuse_as(why, "has extensions that do not fit");
		if (seen[type / 64] & BIT64(type % 64))
			return refuse_as(why, "has an extension twice");
		seen[type / 64] |= BIT64(type % 64);
		if (read_extension(type, body, ret, why) < 0)
			return -EINVAL;
	}
	return 0;
}

static int parse_hello(const struct buf *message, struct clienthello *ret, const char **why)
{
	struct cursor c = {(const uint8_t *)message->data + HANDSHAKE_HEAD,
	                   message->len - HANDSHAKE_HEAD, false};
	struct clienthello hello = {.version = cursor_u16(&c)};
	struct cursor session, ciphers, compressions;

	(void)cursor_bytes(&c, 32); /* random */
	session = cursor_piece(&c, cursor_u8(&c));
	ciphers = cursor_piece(&c, cursor_u16(&c));
	compressions = cursor_piece(&c, cursor_u8(&c));
	if (c.failed || session.left > 32 || ciphers.left < 2 || ciphers.left % 2 ||
	    compressions.left == 0 || hello.version < 0x0300 || hello.version > 0x03ff)
		return refuse_as(why, "is a malformed ClientHello");
	if (c.left > 0 && read_extensions(&c, &hello, why) < 0)
		return -EINVAL;
	*ret = hello;
	return 0;
}

/* Checks the part of a record's head that has come: 0, CLIENTHELLO_NOT_TLS or -EINVAL. */
static int check_record_head(const struct clienthello_reader *r, const char **why)
{
	bool is_first = r->message.len == 0;
	size_t len = (size_t)(r->head[3] << 8 | r->head[4]);

	if (r->head[0] != RECORD_HANDSHAKE || (r->head_len > 1 && r->head[1] != 3))
		return is_first ? CLIENTHELLO_NOT_TLS
		                : refuse_as(why, "is a ClientHello that never ends");
	if (r->head_len < sizeof(r->head))
		return 0;
	if (len == 0 || len > RECORD_MAX)
		return refuse_as(why, "has a record of no allowed size");
	return 0;
}

/* Length of the message with its head; 0 until the head has come. */
static size_t message_size(const struct clienthello_reader *r)
{
	const uint8_t *p = (const uint8_t *)r->message.data;

	if (r->message.len < HANDSHAKE_HEAD)
		return 0;
	return HANDSHAKE_HEAD + ((size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
}

static int take_payload(struct clienthello_reader *r, const uint8_t *data, size_t len,
                        const char **why)
{
	size_t size;

	if (buf_append(&r->message, data, len) < 0)
		return refuse_as(why, "has a ClientHello of more than 64 KiB");
	r->record_left -= len;
	if (r->record_left == 0)
		r->head_len = 0;
	if (r->message.data[0] != HELLO_CLIENT)
		return refuse_as(why, "does not begin with a ClientHello");
	size = message_size(r);
	if (size > CLIENTHELLO_MAX)
		return refuse_as(why, "has a ClientHello of more than 64 KiB");
	if (size == 0 || r->message.len < size)
		return CLIENTHELLO_MORE;
	if (r->message.len > size || r->record_left > 0)
		return refuse_as(why, "has more than a ClientHello in its first record");
	return parse_hello(&r->message, r->ret, why) < 0 ? -EINVAL : CLIENTHELLO_DONE;
}

int clienthello_feed(struct clienthello_reader *r, const void *data, size_t len, const char **why)
{
	const uint8_t *at = data;
	int result = CLIENTHELLO_MORE;

	while (len > 0 && result == CLIENTHELLO_MORE) {
		size_t n = 1;

		if (r->record_left == 0) {
			r->head[r->head_len++] = *at;
			result = check_record_head(r, why);
			if (r->head_len == sizeof(r->head) && result == 0)
				r->record_left = (size_t)(r->head[3] << 8 | r->head[4]);
		} else {
			/* The head first, byte by byte, so that the result does not depend on how
			 * the bytes were split. */
			if (r->message.len >= HANDSHAKE_HEAD)
				n = MIN(len, r->record_left);
			n = MIN(n, CLIENTHELLO_MAX - r->n_bytes);
			result = take_payload(r, at, n, why);
		}
		r->n_bytes += n;
		if (r->n_bytes >= CLIENTHELLO_MAX && result == CLIENTHELLO_MORE)
			return refuse_as(why, "has a ClientHello of more than 64 KiB");
		at += n;
		len -= n;
	}
	return result;
}
