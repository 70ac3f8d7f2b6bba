// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What people are told of a node: its state, what is wrong with it and what to do first. It is
 * judged by what the database has of the node's beats (the function directory), so any node can
 * tell it of every other.
 */
#include "base/json/json.h"

#include <stdint.h>

/* Adds to a row of the directory: state, is_here, and problem {code, message, hint} where there is
 * one. */
void node_report_add(json_t *node, uint32_t here, int64_t fence_after_ms, int64_t now_s);
/* That no node of the directory signs certificates, likewise; NULL: one does. */
json_t *node_report_authority(const json_t *nodes);
