// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The identity of a sandbox in its policy. A token says to one audience what the sandbox is
 * (src/identity). A policy gives them out in two ways:
 *
 *	"Bearer identity://AUDIENCE"	in a header that a rule sets: the wall puts a token there,
 *					and the sandbox never sees it
 *	"identity": {"audiences": […]}	the wall answers the code inside at IDENTITY_HOST
 *
 * The second one is short for rules in front of all others, which reply. A policy is stored and
 * shown without tokens; they take their places only in what the wall is told.
 */
#include "base/json/json.h"

#include <stdbool.h>

#define IDENTITY_HOST          "identity.cloche.internal" /* .internal has no public names */
#define IDENTITY_PATH          "/token"
#define IDENTITY_FIELD         "x-cloche-identity" /* so that a page cannot be made to ask for one */
#define IDENTITY_AUDIENCES_MAX 8
#define AUDIENCE_MAX           255

/* What a URL may have: 1 to AUDIENCE_MAX bytes. */
bool audience_is_valid(const char *text);
/* The audience of a text that is a reference, perhaps behind the name of a scheme ("Bearer"); else
 * NULL. */
const char *identity_reference_audience(const char *text);
bool identity_reference_is_in(const char *text); /* well-formed or not */

/* The rule that answers with the token for the audience, and the last one, which says what is
 * missing. The caller owns them. */
json_t *identity_rule(const char *audience, const char *token);
json_t *identity_last_rule(void);
