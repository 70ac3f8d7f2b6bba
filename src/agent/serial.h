// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The port of a vm: records to and from the host (proto/port.h). Each connection of the host's is a
 * pair of sockets here, whose other end the wire serves as it would a jail's.
 */
#include "agent/agent.h"

struct serial;

must_check int serial_new(struct agent *a, struct serial **ret, struct err *err);
void serial_free(struct serial *s);
/* What a SETUP has left to be done: before anything is started or spoken to. */
void serial_settle(struct serial *s);
