// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the host tells a vm before anybody's code runs in it, and again after each restore: a copy
 * of another machine gets its own identity by this.
 */
#include "agent/agent.h"
#include "proto/port.h"

must_check int setup_apply(struct settings *s, const struct port_setup *setup, struct err *err);
/* And in /etc: after setup_apply(), before anything runs that could read them. */
must_check int setup_write_names(const struct port_setup *setup, struct err *err);
/* The execs stand still, or go on. It waits until they do, within seconds. */
void setup_freeze(const struct settings *s, bool on);
void setup_measure(const struct settings *s, struct port_usage *ret);
