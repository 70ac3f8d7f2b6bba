// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Ports of a sandbox that can be reached from outside. A call opens one, either for anybody, or
 * with a token that lets its holder in until it expires. A line is one TCP connection to a port
 * inside; it ends with its owner or with the sandbox.
 */
#include "sandbox/model/sandbox.h"

#include <openssl/sha.h>

#define PORTS_MAX            32  /* open ones of a sandbox */
#define PORT_CONNECTIONS_MAX 128 /* at once, of a sandbox */

struct port {
	uint16_t number;
	bool is_public;
	unsigned char hash[SHA256_DIGEST_LENGTH]; /* of the token */
	uint64_t created_us, expires_us;          /* wall clock; 0 = never */
};

struct port_numbers {
	uint16_t at[PORTS_MAX];
	size_t n;
};

struct port_spec {
	uint64_t number;
	uint64_t expires_in_ms; /* 0 = with the sandbox */
	bool is_public;
};

/* Opens it, or opens it again: an older token is then invalid. The token is shown only here. */
must_check int port_open(struct sandbox *s, const struct port_spec *spec, char token[ID_SIZE],
                         struct port *ret, struct err *err);
must_check int port_close(struct sandbox *s, uint16_t number, struct port *ret, struct err *err);
/* In the order of their numbers; NULL past the last. */
const struct port *port_at(const struct sandbox *s, size_t i);
/* The sandbox of that id if its port is open to the token (NULL = none), else NULL, so that nobody
 * learns what exists. */
struct sandbox *port_find(struct fleet *fleet, const char *id, uint16_t number, const char *token);

struct port_connection;
struct port_connection_ops {                /* called from the loop */
	void (*on_open)(int fd, void *arg); /* connected; the fd is the callee's */
	/* Nothing listens there, or the sandbox has ended. The owner must still close the line. */
	void (*on_cut)(const struct err *err, void *arg);
	bool is_by_token; /* it ends with the port's token: when that expires or is replaced */
};
must_check int port_connection_open(struct sandbox *s, uint16_t number,
                                    const struct port_connection_ops *ops, void *arg,
                                    struct port_connection **ret, struct err *err);
/* Counts bytes into the sandbox and out of it. */
void port_connection_count(struct port_connection *l, uint64_t in_bytes, uint64_t out_bytes);
void port_connection_close(struct port_connection *l); /* NULL is fine */
