// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The port of a vm: records to and from the host (proto/port.h). The bytes of the host's newest
 * connection are the bytes of the host's link, which serves it as it would a jail's socket.
 */
#include "agent/agent.h"

/* From then on it is the agent's transport. */
must_check int serial_new(struct agent *a, struct err *err);
