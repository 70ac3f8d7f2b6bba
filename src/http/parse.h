// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * HTTP/1.1 messages as bytes: heads and body framing, for servers, clients and proxies. No I/O, no
 * clock. Every message has one meaning: anything that two parsers could understand differently is
 * refused (a length given twice or in two ways, bare CR or LF, folded lines, blanks around names).
 *
 *	struct buf in --> http_head_read() until 1 --> http_decode() until HTTP_DECODE_END --> next
 *
 * Bytes are removed from the front of in as they are parsed, so it never holds more than one line
 * of a head. Feeding byte by byte gives the same result as feeding all at once.
 */
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

#define HTTP_LINE_MAX                                                                              \
	((size_t)16 * 1024) /* request line: a path of 4 KiB, percent-encoded, fits                \
	                     */
#define HTTP_HEAD_MAX   ((size_t)32 * 1024) /* whole head */
#define HTTP_FIELDS_MAX 100

enum http_kind {
	HTTP_REQUEST,       /* to an origin server: the target is a path, or "*" of OPTIONS */
	HTTP_PROXY_REQUEST, /* to a proxy: also "http://host/path", and "host:port" of CONNECT */
	HTTP_RESPONSE,
};

enum http_framing {
	HTTP_NO_BODY,
	HTTP_LENGTH,
	HTTP_CHUNKED,
	HTTP_UNTIL_CLOSE, /* responses only */
};

struct http_field {
	const char *name, *value;
};

/* A head, while it is read and afterwards. Strings are borrowed from it. */
struct http_head {
	enum http_kind kind;
	bool is_head_reply; /* set by the caller: this response answers HEAD, so it has no body */
	/* valid once http_head_read() returned 1 */
	unsigned minor;     /* of HTTP/1.x: 0 or 1 */
	const char *method; /* requests */
	const char *target;
	int status; /* responses */
	const char *reason;
	enum http_framing framing;
	uint64_t length; /* of HTTP_LENGTH */
	bool keep_alive; /* as the version and Connection say */
	bool expects_continue;
	bool is_upgrade; /* "Connection: upgrade" with an Upgrade field */
	/* private */
	struct buf text;  /* the pieces, each with a NUL */
	size_t n_scanned; /* bytes at the front of in that hold no end of line */
	size_t n_bytes;   /* taken so far */
	bool has_start_line;
	size_t n_fields;
	struct {
		uint32_t name, value; /* places in text */
	} fields[HTTP_FIELDS_MAX];
	uint32_t start[2]; /* places of method and target, or of the reason */
};

void http_head_init(struct http_head *h, enum http_kind kind);
void http_head_done(struct http_head *h);
/*
 * 1: the head is complete and was removed from in; 0: more bytes are needed; < 0: refused, err says
 * why (ERR_BAD_REQUEST, ERR_URI_TOO_LONG or ERR_HEADERS_TOO_LARGE), and the caller must not read
 * on.
 */
must_check int http_head_read(struct http_head *h, struct buf *in, struct err *err);
/* A field by its name, in any case; NULL if absent. If a field came several times, the first
 * one. */
const char *http_head_find(const struct http_head *h, const char *name);
size_t http_head_count(const struct http_head *h, const char *name);
struct http_field http_head_field(const struct http_head *h, size_t i); /* i < n_fields */
/* Whether a comma-separated list has the word, in any case, without parameters. */
bool http_list_has(const char *list, const char *word);

/* A message body behind its head. */
enum http_decode_result {
	HTTP_DECODE_MORE, /* in is used up */
	HTTP_DECODE_DATA, /* *data, *len; valid until bytes are added to in */
	HTTP_DECODE_END,  /* the rest of in belongs to the next message */
};

struct http_decoder {
	enum http_framing framing;
	uint64_t left;   /* of the length or the chunk */
	unsigned state;  /* place in the chunk grammar */
	unsigned digits; /* of the chunk's size */
	size_t n_extra;  /* bytes of extensions and trailers, which are dropped */
};

void http_decoder_init(struct http_decoder *d, enum http_framing framing, uint64_t length);
/* An http_decode_result, or -EPROTO. */
must_check int http_decode(struct http_decoder *d, struct buf *in, const char **data, size_t *len);
bool http_decoder_is_done(const struct http_decoder *d);
/* The peer has closed: 0 if that was a proper end, -EPROTO if the body was cut short. */
must_check int http_decode_eof(struct http_decoder *d);

/* Writing. */
must_check int http_encode_chunk(struct buf *out, const void *data, size_t len); /* len > 0 */
must_check int http_encode_last_chunk(struct buf *out);
/* Writes a field. -EINVAL if its name is not a token or its value could start a second line. */
must_check int http_encode_field(struct buf *out, const char *name, const char *value);
bool http_is_token(const char *text, size_t len);
