// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * RUN/cluster.sock, for root alone: how the member is asked how it is, and told to begin anew with
 * what a command has changed. One message there, one back.
 */
#include "base/json/json.h"
#include "loop/loop.h"

#define STATUS_SOCKET_STATUS "status"
#define STATUS_SOCKET_AGAIN  "again" /* it ends, and its launcher starts another */

struct status_socket;

must_check int status_socket_bind(const char *run_dir, int *ret_fd, struct err *err);
must_check int status_socket_serve(struct loop *loop, int fd, json_t *(*status)(void *arg),
                                   void *arg, struct status_socket **ret);
/* The other end. -ENOENT or -ECONNREFUSED: there is no member. */
must_check int status_socket_ask(const char *run_dir, const char *what, json_t **ret,
                                 struct err *err);
