// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The port of a vm: records to and from the host (proto/port.h). The bytes of the host's newest
 * connection are the wire's, which serves it as it would a jail's socket.
 */
#include "agent/agent.h"

struct serial;

must_check int serial_new(struct agent *a, struct serial **ret, struct err *err);
/* What a SETUP has left to be done: before anything is started or spoken to. */
void serial_settle(struct serial *s);
/* Of the wire's connection: how many of the bytes were taken. When it was not all of them, the wire
 * is kicked as soon as more are. */
must_check size_t serial_send(struct serial *s, const char *data, size_t len);
void serial_end(struct serial *s); /* the wire has ended it */
