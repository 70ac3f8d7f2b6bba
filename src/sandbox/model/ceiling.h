// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Checks a sandbox's limits and lifetime against its owners' ceilings (tenant/ceiling.h). */
#include "sandbox/model/sandbox_private.h"

/* A wanted value of 0 is not checked. key_id may be NULL. */
must_check int ceiling_check(const struct fleet *fleet, const char *project_id, const char *key_id,
                             const struct guest_limits *asked, uint64_t timeout_ms,
                             struct err *err);
/* The same for those of its execs. */
must_check int ceiling_check_execs(const struct fleet *fleet, const char *project_id,
                                   const char *key_id, const struct exec_limits *asked,
                                   struct err *err);
/* Lowers effective limits that are higher than the ceilings. */
void ceiling_lower_execs(const struct sandbox *s, struct exec_limits *limits);
/* Lowers defaults to the ceilings. */
void ceiling_lower(const struct fleet *fleet, const char *project_id, const char *key_id,
                   struct guest_limits *limits, uint64_t *timeout_ms);
uint64_t ceiling_timeout_ms(const struct sandbox *s); /* the longest lifetime; 0 = any */
