// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Converts between struct address and the addresses of sockets. */
#include "net/match/address.h"

#include <sys/socket.h>

socklen_t sockaddr_from(struct sockaddr_storage *ret, const struct address *a, uint16_t port);
socklen_t sockaddr_len(const struct sockaddr_storage *sa);
/* -EAFNOSUPPORT: neither IPv4 nor IPv6. */
must_check int sockaddr_to(const struct sockaddr_storage *sa, struct address *ret,
                           uint16_t *ret_port);
