// SPDX-License-Identifier: Apache-2.0
#include "identity/token.h"

#include "base/json/json.h"
#include "base/parse.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

static bool is_plain(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       strchr("-._~", c);
}

static void put_escaped(struct buf *out, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++)
		(void)!(is_plain(*p) ? buf_append(out, p, 1) : buf_printf(out, "%%%02X", *p));
}

char *token_subject(const struct workload *w)
{
	auto_call(buf_done) struct buf out = BUF_INIT(WORKLOAD_TEXT_SIZE);

	(void)!buf_append_str(&out, "project:");
	put_escaped(&out, w->project);
	(void)!buf_append_str(&out, ":template:");
	put_escaped(&out, w->template);
	(void)!buf_append_str(&out, ":isolation:");
	put_escaped(&out, w->grade);
	return xstrdup(buf_str(&out));
}

static int put_header(const struct signing_key *key, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	json_put_str(&w, "alg", "RS256");
	json_put_str(&w, "kid", signing_key_name(key));
	json_put_str(&w, "typ", "JWT");
	json_close_object(&w);
	return json_writer_end(&w);
}

static void put_workload(struct json_writer *w, const struct workload *of)
{
	json_put_str(w, "project", of->project);
	json_put_str(w, "project_id", of->project_id);
	json_put_str(w, "template", of->template);
	if (of->image[0]) {
		auto_free char *digest = xasprintf("sha256:%s", of->image);

		json_put_str(w, "image_digest", digest);
	}
	if (of->snapshot_id[0])
		json_put_str(w, "snapshot_id", of->snapshot_id);
	json_put_str(w, "engine", of->engine);
	json_put_str(w, "isolation", of->grade);
	json_put_str(w, "sandbox_id", of->sandbox_id);
}

static int put_claims(const struct workload *of, const struct token_terms *terms, struct buf *out)
{
	auto_free char *subject = token_subject(of);
	const uint64_t before = terms->now_s > TOKEN_SKEW_S ? TOKEN_SKEW_S : 0;
	struct json_writer w;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	json_put_str(&w, "iss", terms->issuer);
	json_put_str(&w, "sub", subject);
	json_put_str(&w, "aud", terms->audience);
	json_put_u64(&w, "iat", terms->now_s);
	json_put_u64(&w, "nbf", terms->now_s - before);
	json_put_u64(&w, "exp", terms->now_s + terms->lifetime_s);
	json_put_str(&w, "jti", terms->id);
	put_workload(&w, of);
	json_close_object(&w);
	return json_writer_end(&w);
}

static int put_coded(const struct buf *text, struct buf *out)
{
	auto_free char *coded = xcalloc(1, base64_size(text->len));

	return buf_append(out, coded, base64url_encode(text->data, text->len, coded));
}

int token_make(const struct signing_key *key, const struct workload *w,
               const struct token_terms *terms, struct buf *out)
{
	auto_call(buf_done) struct buf header = BUF_INIT(WORKLOAD_TEXT_SIZE);
	auto_call(buf_done) struct buf claims = BUF_INIT(TOKEN_SIZE_MAX);
	const size_t start = out->len;
	int r = put_header(key, &header);

	if (r == 0)
		r = put_claims(w, terms, &claims);
	if (r == 0)
		r = put_coded(&header, out);
	if (r == 0)
		r = buf_append_str(out, ".");
	if (r == 0)
		r = put_coded(&claims, out);
	if (r == 0) {
		auto_call(buf_done) struct buf signature = BUF_INIT(TOKEN_SIZE_MAX);

		r = signing_key_sign(key, out->data + start, out->len - start, &signature);
		if (r == 0)
			r = buf_append_str(out, ".");
		if (r == 0)
			r = buf_append(out, signature.data, signature.len);
	}
	return r;
}
