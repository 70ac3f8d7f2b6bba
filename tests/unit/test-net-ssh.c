// SPDX-License-Identifier: Apache-2.0
/* Keys of SSH, and the signer. The host is played here, with a key of its own. */
#include "net/policy/ssh_signer.h"
#include "net/ssh/wire.h"
#include "test.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#define SESSION "0123456789abcdef0123456789abcdef"
#define OTHER   "fedcba9876543210fedcba9876543210"

struct rig {
	EVP_PKEY *host, *user;
	struct buf host_blob, user_blob;
	struct policy *policy;
	struct ssh_signer signer;
	struct ssh_signer_report report;
};

static const struct range_site site;

static void put_blob(EVP_PKEY *key, struct buf *out)
{
	uint8_t raw[32];
	size_t len = sizeof(raw);

	buf_init(out, 256);
	CHECK_INT(EVP_PKEY_get_raw_public_key(key, raw, &len), 1);
	CHECK_INT(ssh_put_text(out, "ssh-ed25519"), 0);
	CHECK_INT(ssh_put_string(out, raw, len), 0);
}

static char *base64_of(const struct buf *b)
{
	char *text = xnew0n(char, 4 * b->len + 4);

	(void)EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)b->data, (int)b->len);
	return text;
}

static struct policy *read_policy(const char *key, const char *host_key, const char *before)
{
	auto_json json_t *value =
		json_pack("{s[s*]s[{s{s[ss]s[ii]}s{s{sss[ss]s[s]}}}]}", "deny", before, "rules",
	                  "match", "domains", "git.test", "code.test", "ports", 22, 2222, "action",
	                  "ssh", "key", key, "users", "git", "deploy", "host_keys", host_key);
	struct policy *p = NULL;
	struct err err = {0};

	if (policy_read(value, "network", &p, &err) < 0)
		CHECK_STR(err.message, "");
	return p;
}

static struct policy *policy_of(const struct rig *r, const char *before)
{
	BIO *bio = BIO_new(BIO_s_mem());
	auto_free char *base64 = base64_of(&r->host_blob), *host_key = NULL, *key = NULL;
	struct policy *p;
	char *pem;
	long n;

	CHECK_INT(PEM_write_bio_PKCS8PrivateKey(bio, r->user, NULL, NULL, 0, NULL, NULL), 1);
	n = BIO_get_mem_data(bio, &pem);
	key = xstrndup(pem, (size_t)n);
	host_key = xasprintf("ssh-ed25519 %s a comment", base64);
	p = read_policy(key, host_key, before);
	BIO_free(bio);
	return p;
}

static void rig_init(struct rig *r)
{
	*r = (struct rig){.host = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"),
	                  .user = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")};
	put_blob(r->host, &r->host_blob);
	put_blob(r->user, &r->user_blob);
	r->policy = policy_of(r, NULL);
	ssh_signer_init(&r->signer);
}

static void rig_done(struct rig *r)
{
	ssh_signer_done(&r->signer);
	policy_free(r->policy);
	buf_done(&r->host_blob);
	buf_done(&r->user_blob);
	EVP_PKEY_free(r->host);
	EVP_PKEY_free(r->user);
}

/* The kind of the answer; its rest goes to out. */
static int ask(struct rig *r, const struct buf *message, struct buf *out)
{
	auto_call(buf_done) struct buf answer = BUF_INIT(65536);
	struct cursor c, piece;
	int kind;

	CHECK_INT(ssh_signer_answer(&r->signer, r->policy, &site, message->data, message->len,
	                            &answer, &r->report),
	          0);
	c = (struct cursor){(const uint8_t *)answer.data, answer.len, false};
	piece = ssh_string(&c);
	CHECK(ssh_is_over(&c));
	kind = cursor_u8(&piece);
	if (out)
		CHECK_INT(buf_append(out, piece.at, piece.left), 0);
	return kind;
}

static void sign_by(EVP_PKEY *key, const char *data, uint8_t ret[64])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t len = 64;

	CHECK_INT(EVP_DigestSignInit(ctx, NULL, NULL, NULL, key), 1);
	CHECK_INT(EVP_DigestSign(ctx, ret, &len, (const uint8_t *)data, strlen(data)), 1);
	EVP_MD_CTX_free(ctx);
}

/* by signs over what was said to it, which may be another session than is told. */
static int bind_session(struct rig *r, EVP_PKEY *by, const char *said, const char *told,
                        char forwarded)
{
	auto_call(buf_done) struct buf m = BUF_INIT(4096), signature = BUF_INIT(256);
	uint8_t bytes[64];

	sign_by(by, said, bytes);
	CHECK_INT(ssh_put_text(&signature, "ssh-ed25519") | ssh_put_string(&signature, bytes, 64),
	          0);
	CHECK_INT(buf_append(&m, "\x1b", 1) | ssh_put_text(&m, "session-bind@openssh.com"), 0);
	CHECK_INT(ssh_put_string(&m, r->host_blob.data, r->host_blob.len), 0);
	CHECK_INT(ssh_put_text(&m, told) | ssh_put_string(&m, signature.data, signature.len), 0);
	CHECK_INT(buf_append(&m, &forwarded, 1), 0);
	return ask(r, &m, NULL);
}

struct want {
	const char *session, *user, *service, *method, *behind;
};
#define LOGIN                                                                                      \
	{                                                                                          \
		SESSION, "git", "ssh-connection", "publickey", ""                                  \
	}

static int sign_login(struct rig *r, struct want w)
{
	auto_call(buf_done) struct buf data = BUF_INIT(4096), m = BUF_INIT(8192);

	CHECK_INT(ssh_put_text(&data, w.session) | buf_append(&data, "\x32", 1), 0);
	CHECK_INT(ssh_put_text(&data, w.user) | ssh_put_text(&data, w.service), 0);
	CHECK_INT(ssh_put_text(&data, w.method) | buf_append(&data, "\x01", 1), 0);
	CHECK_INT(ssh_put_text(&data, "ssh-ed25519"), 0);
	CHECK_INT(ssh_put_string(&data, r->user_blob.data, r->user_blob.len), 0);
	CHECK_INT(buf_append_str(&data, w.behind), 0);
	CHECK_INT(buf_append(&m, "\x0d", 1), 0);
	CHECK_INT(ssh_put_string(&m, r->user_blob.data, r->user_blob.len), 0);
	CHECK_INT(ssh_put_string(&m, data.data, data.len) | ssh_put_u32(&m, 0), 0);
	return ask(r, &m, NULL);
}

TEST(only_a_login_of_the_bound_session_is_signed)
{
	static const struct {
		struct want want;
		const char *why;
	} refused[] = {
		{{OTHER, "git", "ssh-connection", "publickey", ""}, "it is for another session"},
		{{SESSION, "root", "ssh-connection", "publickey", ""},
	         "the rule does not name that user"},
		{{SESSION, "git", "ssh-userauth", "publickey", ""}, "it is no login by SSH"},
		{{SESSION, "git", "ssh-connection", "hostbased", ""}, "it is no login by SSH"},
		{{SESSION, "git", "ssh-connection", "publickey", "x"}, "it is no login by SSH"},
	};
	struct rig r;

	rig_init(&r);
	CHECK_INT(sign_login(&r, (struct want)LOGIN), 5);
	CHECK(strstr(r.report.why, "not bound"));
	CHECK_INT(bind_session(&r, r.host, SESSION, SESSION, 0), 6);
	CHECK_INT(sign_login(&r, (struct want)LOGIN), 14);
	CHECK_INT(r.report.outcome, SIGNER_SIGNED);
	CHECK_INT(r.report.rule, 0);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		CHECK_INT(sign_login(&r, refused[i].want), 5);
		CHECK_STR(r.report.why, refused[i].why);
	}
	rig_done(&r);
}

TEST(a_binding_needs_the_signature_of_a_host_of_the_policy)
{
	static const struct {
		bool is_user, is_other;
		char forwarded;
	} lies[] = {{.is_user = true}, {.is_other = true}, {.forwarded = 1}};

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct rig r;

		rig_init(&r);
		CHECK_INT(bind_session(&r, lies[i].is_user ? r.user : r.host,
		                       lies[i].is_other ? OTHER : SESSION, SESSION,
		                       lies[i].forwarded),
		          5);
		CHECK_INT(sign_login(&r, (struct want)LOGIN), 5);
		CHECK_INT(bind_session(&r, r.host, SESSION, SESSION, 0), 5); /* it had its chance */
		rig_done(&r);
	}
}

TEST(a_session_id_by_sha1_is_not_taken)
{
	struct rig r;

	rig_init(&r);
	CHECK_INT(bind_session(&r, r.host, "01234567890123456789", "01234567890123456789", 0), 5);
	rig_done(&r);
}

TEST(a_policy_that_changes_counts_for_the_next_message)
{
	struct rig r;

	rig_init(&r);
	CHECK_INT(bind_session(&r, r.host, SESSION, SESSION, 0), 6);
	CHECK_INT(sign_login(&r, (struct want)LOGIN), 14);
	policy_free(r.policy);
	r.policy = policy_of(&r, "git.test"); /* code.test is left */
	CHECK_INT(sign_login(&r, (struct want)LOGIN), 14);
	policy_free(r.policy);
	r.policy = policy_of(&r, "*.test");
	CHECK_INT(sign_login(&r, (struct want)LOGIN), 5);
	CHECK_STR(r.report.why, "a rule denies it");
	policy_free(r.policy);
	r.policy = policy_new();
	CHECK_INT(sign_login(&r, (struct want)LOGIN), 5);
	rig_done(&r);
}

TEST(keys_are_shown_that_fit_the_bound_host)
{
	const char list = 11;
	auto_call(buf_done) struct buf m = BUF_INIT(8), before = BUF_INIT(1024),
				       after = BUF_INIT(1024);
	struct rig r;

	rig_init(&r);
	CHECK_INT(buf_append(&m, &list, 1), 0);
	CHECK_INT(ask(&r, &m, &before), 12);
	CHECK_INT(before.data[3], 1);
	CHECK_INT(bind_session(&r, r.user, SESSION, SESSION, 0), 5); /* refused: none is its */
	CHECK_INT(ask(&r, &m, &after), 12);
	CHECK_INT(after.data[3], 0);
	rig_done(&r);
}

TEST(whatever_adds_removes_or_locks_keys_fails)
{
	struct rig r;

	rig_init(&r);
	for (int kind = 0; kind < 256; kind++) {
		auto_call(buf_done) struct buf m = BUF_INIT(8);
		const char byte = (char)kind;

		CHECK_INT(buf_append(&m, &byte, 1), 0);
		CHECK_INT(ask(&r, &m, NULL), kind == 11 ? 12 : 5);
	}
	rig_done(&r);
}

TEST(names_have_places_and_lines_for_known_hosts)
{
	auto_call(buf_done) struct buf lines = BUF_INIT(4096);
	struct hostname name;
	struct rig r;

	rig_init(&r);
	CHECK_INT(hostname_parse("code.test", strlen("code.test"), &name, NULL), 0);
	CHECK_INT(policy_ssh_place(r.policy, &name), 1);
	CHECK_STR(policy_ssh_name(r.policy, 1, 2222)->text, "code.test");
	CHECK(!policy_ssh_name(r.policy, 1, 443));
	CHECK(!policy_ssh_name(r.policy, 2, 22));
	CHECK_INT(policy_put_known_hosts(r.policy, &lines), 0);
	CHECK(strstr(buf_str(&lines),
	             "git.test,[git.test]:2222,code.test,[code.test]:2222 ssh-ed25519 AAAA"));
	CHECK(!strstr(buf_str(&lines), "comment"));
	rig_done(&r);
}
