// SPDX-License-Identifier: Apache-2.0
#pragma once
/* DNS by TCP: a guest's connection to port 53 of any address. One question at a time. */
#include "wall/door.h"

struct dns_tcp;

/* Owns fd, also when it fails. done: the guest has left, or was too slow. */
must_check int dns_tcp_new(struct door *door, int fd, loop_fn done, void *arg,
                           struct dns_tcp **ret);
void dns_tcp_free(struct dns_tcp *d); /* NULL is fine */
