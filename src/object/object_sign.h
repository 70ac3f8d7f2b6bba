// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Signatures of requests to an S3-compatible store: AWS Signature Version 4, in the Authorization
 * field. Pure: no clock, no I/O. What is signed is told in its canonical form: the path as it is
 * sent, the fields by their lower-case names in order.
 */
#include "base/err.h"
#include "http/parse.h"

#define OBJECT_SIGN_TIME_SIZE 17  /* "20150830T123600Z" */
#define OBJECT_SIGN_SIZE      512 /* of the value of Authorization */
#define OBJECT_HASH_SIZE      65  /* a SHA-256 in hexadecimal digits */

struct object_credentials {
	char id[128], secret[128];
	char *session; /* of those that end; NULL: none */
};

struct object_sign {
	const struct object_credentials *credentials;
	const char *region, *service;
	const char *time; /* as object_sign_time() gives it */
	const char *method, *path, *query;
	const struct http_field *fields; /* all that are to be signed, host among them */
	size_t n_fields;
	const char *content_hash; /* as object_hash() gives it */
};

void object_hash(const void *data, size_t len, char ret[OBJECT_HASH_SIZE]);
void object_sign_time(uint64_t at_us, char ret[OBJECT_SIGN_TIME_SIZE]);
/* -E2BIG if it does not fit. */
must_check int object_sign(const struct object_sign *s, char ret[OBJECT_SIGN_SIZE]);

/*
 * Reads a file of credentials as the AWS tools have it: aws_access_key_id, aws_secret_access_key
 * and perhaps aws_session_token, of the section [default] or of the first one. setting: what names
 * the file, for the error.
 */
must_check int object_credentials_read(const char *path, const char *setting,
                                       struct object_credentials *ret, struct err *err);
must_check int object_credentials_parse(char *text, struct object_credentials *ret,
                                        struct err *err);   /* text is changed */
void object_credentials_done(struct object_credentials *c); /* wipes them */
