// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Reads the first message of a TLS connection in passing: which name the client wants, and which
 * protocols it offers. Nothing is answered and no key is made.
 *
 *	first bytes of a connection --> clienthello_feed() until it is not CLIENTHELLO_MORE
 *
 * The caller keeps the bytes to send them on. At most 64 KiB are read, in records and segments of
 * any size. The result does not depend on how the bytes were split.
 */
#include "base/buf.h"
#include "net/match/hostname.h"

#define CLIENTHELLO_MAX ((size_t)64 * 1024) /* bytes on the wire */

enum clienthello_result {
	CLIENTHELLO_MORE,
	CLIENTHELLO_DONE,
	CLIENTHELLO_NOT_TLS, /* known from the first bytes: SSL 2, HTTP, anything */
};

struct clienthello {
	bool has_name;
	struct hostname name; /* of server_name, canonical */
	bool has_ech;         /* encrypted ClientHello, or GREASE for it: name is the outer one */
	bool has_early_data;  /* 0-RTT bytes follow */
	bool has_alpn;
	bool offers_http1, offers_h2; /* in ALPN */
	uint16_t version;             /* the newest offered that is one: 0x0304 is TLS 1.3 */
};

struct clienthello_reader {
	struct buf message; /* the handshake message so far, without record heads */
	size_t n_bytes;     /* taken so far */
	uint8_t head[5];    /* of the record */
	uint8_t head_len;   /* bytes of it that are there */
	size_t record_left; /* bytes of the record that are to come */
	struct clienthello *ret;
};

/* *ret is filled once the whole message was read; it must outlive the reader. */
void clienthello_init(struct clienthello_reader *r, struct clienthello *ret);
void clienthello_done(struct clienthello_reader *r);
/* A clienthello_result. Or -EINVAL with why: the connection must not be passed on, whatever the
 * policy says. */
must_check int clienthello_feed(struct clienthello_reader *r, const void *data, size_t len,
                                const char **why);
