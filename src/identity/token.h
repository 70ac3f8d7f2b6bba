// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a token says about a sandbox: a JSON Web Token (RFC 7519), signed by RS256.
 *
 *	iss, aud, iat, nbf, exp, jti	as every verifier expects them
 *	sub	project:NAME:template:NAME:isolation:GRADE
 *	project, project_id, template, image_digest, snapshot_id, engine, isolation, sandbox_id
 *
 * The subject has what a cloud's rule asks for, since some clouds can ask for the subject alone
 * (AWS). It has no id of a sandbox, so that a rule can be written ahead. Names in it are escaped as
 * in URLs, so none can pass for two parts.
 */
#include "base/buf.h"
#include "identity/signing_key.h"

#include <stdint.h>

#define TOKEN_SIZE_MAX     8192
#define TOKEN_SKEW_S       60 /* that a verifier's clock may be behind ours */
#define WORKLOAD_TEXT_SIZE 1024

struct workload {
	const char *project_id, *project;
	const char *template;
	const char *image;       /* digest of its template in hex; "": it has none */
	const char *snapshot_id; /* that it was started from, or "" */
	const char *engine, *grade;
	const char *sandbox_id;
};

struct token_terms {
	const char *issuer, *audience;
	const char *id;
	uint64_t now_s, lifetime_s;
};

/* Of a workload, to be freed. */
char *token_subject(const struct workload *w);
must_check int token_make(const struct signing_key *key, const struct workload *w,
                          const struct token_terms *terms, struct buf *out);
