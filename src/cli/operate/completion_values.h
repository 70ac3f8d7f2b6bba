// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a word may be that --help calls by its kind: the fixed words of a language or an engine, and
 * names of what the daemon has. A daemon that does not answer at once has no names.
 */
#include "cli/frame/command.h"
#include "cli/frame/complete.h"

/* Tells fn each that begins with what is typed. */
void completion_values(struct command *c, const struct complete_place *place, complete_fn fn,
                       void *arg);
