// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Variables by which programs inside follow what the sandbox's network is. */
#include "proto/start.h"
#include "sandbox/model/sandbox.h"

#define NETWORK_ENV_MAX 11
/* Adds "NAME=value" words, except for names in the two objects (or NULL). */
void network_env_add(const struct sandbox *s, const json_t *env, const json_t *over,
                     struct start *to);
bool network_env_is_trust(const char *word); /* one that names certificates */
