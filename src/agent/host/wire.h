// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The connection to the host: a listener, one stream at a time, frames in and out. */
#include "agent/agent.h"
#include "proto/frame.h"

/* Without a listener, connections come by wire_attach_port(). */
must_check int wire_new(struct agent *a, struct wire **ret, struct err *err);
void wire_free(struct wire *w);
/* Without sockets, in a vm: its port carries the bytes (serial.h). */
void wire_attach_port(struct wire *w); /* replaces the connection that there is */
void wire_take(struct wire *w, const char *data, size_t len);
void wire_detach(struct wire *w); /* the host has ended it */
void wire_kick(struct wire *w);   /* some channel may have a frame to send */
/* Lets go of the host: what it had sent is done, its connection and the listener are closed. */
void wire_quiesce(struct wire *w);
void wire_tell_quiet(struct wire *w); /* to who has asked for it, by the end of its connection */
must_check int wire_listen(struct wire *w); /* serves the settings' listener */
