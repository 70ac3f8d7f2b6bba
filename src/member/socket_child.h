// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A child of the member, with one socket to it as its stdin, and no descriptor above stderr. When
 * the member is gone, the child reads the end of the socket. */
#include "base/err.h"

/* 0: *ret_fd is the member's end (SOCK_SEQPACKET); 1: this is the child, which must not return.
 * what: for the error. */
must_check int socket_child_fork(const char *what, int *ret_fd, struct err *err);
