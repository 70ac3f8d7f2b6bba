// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Ports of a sandbox that can be reached from outside. One is opened by a call, with a token that
 * lets in whoever shows it until it expires, or for anybody. A line is one TCP connection to a port
 * inside; it ends with whoever opened it or with the sandbox.
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

/* Opens it, or opens it anew: an older token then lets nobody in. The token is told here only. */
must_check int port_open(struct sandbox *s, const struct port_spec *spec, char token[ID_SIZE],
                         struct port *ret, struct err *err);
must_check int port_close(struct sandbox *s, uint16_t number, struct port *ret, struct err *err);
/* In the order of their numbers; NULL past the last. */
const struct port *port_at(const struct sandbox *s, size_t i);
/* The sandbox if the port of that id is open to who has the token (NULL = none), else NULL: nobody
 * learns what there is. */
struct sandbox *port_find(struct fleet *fleet, const char *id, uint16_t number, const char *token);

struct port_connection;
struct port_connection_ops {                /* called from the loop */
	void (*on_open)(int fd, void *arg); /* connected; the fd is the callee's */
	/* Nothing listens there, or the sandbox has ended. The line is still to be closed. */
	void (*on_cut)(const struct err *err, void *arg);
	bool is_by_token; /* it ends with the port's token: when that expires or is replaced */
};
must_check int port_connection_open(struct sandbox *s, uint16_t number,
                                    const struct port_connection_ops *ops, void *arg,
                                    struct port_connection **ret, struct err *err);
/* Bytes have passed: into the sandbox, and out of it. */
void port_connection_count(struct port_connection *l, uint64_t in_bytes, uint64_t out_bytes);
void port_connection_close(struct port_connection *l); /* NULL is fine */
