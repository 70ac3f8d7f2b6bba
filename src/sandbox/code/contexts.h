// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The interface of contexts for the rest of src/sandbox. */
#include "sandbox/code/context.h"

void context_end_all(struct sandbox *s, const struct err *err); /* the sandbox ends */
void context_free_all(struct sandbox *s);                       /* without a word */
void context_rejoin_all(struct sandbox *s); /* puts their interpreters onto the sandbox's link */
struct language;
/* Starts an interpreter ahead, for the first request that needs one like it. */
void context_warm(struct sandbox *s, const struct language *language);
bool context_has_warm(const struct sandbox *s, const struct language *language);
bool context_is_warming(struct sandbox *s); /* some are not ready yet */
void context_cool(struct sandbox *s);       /* ends those that wait */
