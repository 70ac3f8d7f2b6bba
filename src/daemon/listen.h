// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Listening sockets. The launcher opens and keeps them, so that clients wait and are not refused
 * while gateway and broker restart. */
#include "base/err.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

struct listen_address {
	struct sockaddr_storage addr;
	socklen_t len;
};

/* "127.0.0.1:7070", "[::1]:0", "localhost:7070": an address or localhost, never a name to
 * resolve. */
must_check int listen_parse(const char *text, struct listen_address *ret, struct err *err);
must_check int listen_tcp(const char *text, int *ret_fd, struct err *err);
/* Mode 0660, owned by root and this group. A socket that a dead daemon left there is replaced; the
 * caller makes sure that no living one holds it. */
must_check int listen_unix(const char *path, gid_t gid, int *ret_fd, struct err *err);
/* Where it listens, as in a URL: "127.0.0.1:7070", "[::1]:7070". */
void listen_name(int fd, char *text, size_t size);
bool listen_is_wildcard(const struct listen_address *a); /* any address of this host */
