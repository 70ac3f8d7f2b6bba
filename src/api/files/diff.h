// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/json/json.h"
#include "proto/start.h"

/* {path, kind, changed, type, size, …} of a RECORD_CHANGE. */
void change_to_json(const struct record *r, struct json_writer *w, const char *name);
