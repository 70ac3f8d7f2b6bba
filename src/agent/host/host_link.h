// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The connection to the host: a listener, one stream at a time, frames in and out. */
#include "agent/agent.h"
#include "proto/frame.h"

/* Without a listener, connections come by host_link_attach_port(). */
must_check int host_link_new(struct agent *a, struct host_link **ret, struct err *err);
void host_link_free(struct host_link *w);
/* Without sockets, in a vm: its port carries the bytes (serial.h). */
void host_link_attach_port(struct host_link *w); /* replaces the connection that there is */
void host_link_take(struct host_link *w, const char *data, size_t len);
void host_link_detach(struct host_link *w); /* the host has ended it */
void host_link_kick(struct host_link *w);   /* some channel may have a frame to send */
/* Lets go of the host: what it had sent is done, its connection and the listener are closed. */
void host_link_quiesce(struct host_link *w);
void host_link_tell_quiet(
	struct host_link *w); /* to who has asked for it, by the end of its connection */
must_check int host_link_listen(struct host_link *w); /* serves the settings' listener */
