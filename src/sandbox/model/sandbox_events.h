// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Event log entries and counts about sandboxes. */
#include "event/event.h"
#include "sandbox/model/sandbox.h"

struct json_writer *emit_begin(struct event *ev, const struct sandbox *s, enum event_type type);
void emit_created(const struct sandbox *s);
/* A sandbox whose create was logged but failed. */
void emit_refused(const struct sandbox *s, enum end_cause cause);
void emit_moved(const struct sandbox *s, enum sandbox_state from);
void emit_adopted(const struct sandbox *s);
void emit_changed(struct sandbox *s, const char *what); /* "settings", "ports", "network" */
void emit_rolled_back(const struct sandbox *s);
