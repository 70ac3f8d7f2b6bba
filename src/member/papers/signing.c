// SPDX-License-Identifier: Apache-2.0
#include "member/papers/signing.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/units.h"
#include "member/papers/invitation.h"
#include "member/papers/renewal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <string.h>

#define FILE_MAX 512

const char *signing_name(const json_t *request)
{
	const char *name = json_string_value(json_object_get(request, "name"));

	return name ? name : "";
}

/* What this node has kept of an invitation of its own. */
static int read_kept(const char *path, struct digest *ret_key, struct err *err)
{
	char text[FILE_MAX];
	auto_json json_t *all = NULL;
	const char *key = NULL;
	uint64_t expires_s = 0;
	const struct json_field fields[] = {
		{"proof_key", JSON_FIELD_STRING, &key, true},
		{"expires_s", JSON_FIELD_U64, &expires_s, true, .max = INT64_MAX},
	};
	int len = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	int r;

	if (len < 0)
		return err_set(err, ERR_NOT_FOUND, 0,
		               "the node that signs knows no such invitation");
	r = json_parse(text, (size_t)len, &all, err);
	if (r == 0)
		r = json_read(all, "", fields, ARRAY_SIZE(fields), err);
	if (r == 0 && digest_parse(key, ret_key) < 0)
		r = err_set(err, ERR_INTERNAL, 0, "what is kept of the invitation is damaged");
	if (r == 0 && clock_wall_us() / SECOND_US > expires_s)
		r = err_set(err, ERR_GONE, 0, "the invitation has expired");
	return r;
}

/* An invitation is for one request, which may come again: the database may have lost the answer. */
static int note_use(const char *path, const char *proof, struct err *err)
{
	auto_free char *used = xasprintf("%s.used", path);
	char before[DIGEST_HEX + 1];
	int r = fd_read_file(AT_FDCWD, used, before, sizeof(before));

	if (r >= 0)
		return strcmp(before, proof) == 0
		               ? 0
		               : err_set(err, ERR_CONFLICT, 0, "the invitation was used already");
	r = fd_replace_file(AT_FDCWD, used, proof, strlen(proof), 0600, /* sync= */ true);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot note that it was used") : 0;
}

int signing_answer(const struct authority_pems *authority, const char *cluster_id,
                   const struct signing_dirs *dirs, const json_t *request, char **ret_certificate,
                   struct err *err)
{
	const char *invitation = json_string_value(json_object_get(request, "invitation"));
	const char *address = json_string_value(json_object_get(request, "address"));
	const char *pem = json_string_value(json_object_get(request, "request"));
	const char *proof = json_string_value(json_object_get(request, "proof"));
	const char *name = signing_name(request);
	auto_free char *path = NULL;
	struct digest key, given, wanted;
	int r;

	if (!invitation || !id_is_valid(invitation, "inv") || !address || !pem || !proof ||
	    digest_parse(proof, &given) < 0)
		return err_set(err, ERR_BAD_REQUEST, 0, "the request is not as a node writes it");
	r = node_check(name, address, err);
	if (r < 0)
		return r;
	path = xasprintf("%s/%s", dirs->invitations, invitation);
	r = read_kept(path, &key, err);
	if (r < 0)
		return r;
	invitation_prove(&key, name, address, pem, &wanted);
	if (CRYPTO_memcmp(wanted.bytes, given.bytes, sizeof(given.bytes)) != 0)
		return err_set(err, ERR_FORBIDDEN, 0,
		               "the request is not of who has the invitation");
	r = note_use(path, proof, err);
	if (r == 0)
		r = renewal_note_first(cluster_id, dirs->renewals, name, pem, err);
	if (r < 0)
		return r;
	return authority_sign(authority, pem,
	                      &(struct authority_subject){
				      .cluster_id = cluster_id, .name = name, .address = address},
	                      ret_certificate, err);
}

static int64_t number_at(const PGresult *rows, const char *column)
{
	int at = PQntuples(rows) == 1 ? PQfnumber(rows, column) : -1;
	uint64_t value;

	return at < 0 || parse_u64(PQgetvalue(rows, 0, at), INT32_MAX, &value) < 0 ? -1
	                                                                           : (int64_t)value;
}

enum trouble signing_check_hello(const PGresult *rows, const char *cluster_id, int64_t own_number,
                                 struct err *err)
{
	int at = PQntuples(rows) == 1 ? PQfnumber(rows, "cluster_id") : -1;
	const char *has = at < 0 ? "" : PQgetvalue(rows, 0, at);
	int64_t number = number_at(rows, "number"), least = number_at(rows, "least_member");
	enum trouble trouble = TROUBLE_NONE;

	if (!has[0]) {
		trouble = TROUBLE_NO_SCHEMA;
		(void)trouble_set(err, trouble,
		                  "the database has tables of cloche, but no cluster");
	} else if (cluster_id && strcmp(has, cluster_id) != 0) {
		trouble = TROUBLE_FOREIGN;
		(void)trouble_set(err, trouble,
		                  "the database is of the cluster %.40s, this node is of %.40s",
		                  has, cluster_id);
	} else if (least > own_number) {
		trouble = TROUBLE_OLD;
		(void)trouble_set(err, trouble,
		                  "the schema has number %" PRIi64
		                  " and takes members from %" PRIi64 " on; this one is of %" PRIi64,
		                  number, least, own_number);
	} else if (number < own_number) {
		trouble = TROUBLE_BEHIND;
		(void)trouble_set(err, trouble,
		                  "the schema has number %" PRIi64 ", this member needs %" PRIi64,
		                  number, own_number);
	}
	return trouble;
}
