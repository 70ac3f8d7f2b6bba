// SPDX-License-Identifier: Apache-2.0
/*
 * The certificate that this node shows to its peers, and its renewal in time (papers/renewal.h).
 * When a third of its term is left, the member makes a key and keeps it (wanted.json). After each
 * beat it asks for a certificate of that key, until it has one. Then it keeps both (renewed.json),
 * and shows them from the next stream on. Open streams stay. After a restart a renewal goes on.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "member/database/answer_rows.h"
#include "member/member_private.h"
#include "member/papers/node_certificate.h"
#include "member/papers/renewal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define RENEWED    "renewed.json"
#define WANTED     "wanted.json"
#define FILE_BYTES 32768
#define DUE_PART   3  /* of the term: the last third */
#define WARN_PART  4  /* of the term: what was asked for in time should be there by then */
#define ASK_PART   60 /* how often it asks */
#define ASK_MIN_US (1 * SECOND_US)
#define ASK_MAX_US (30 * SECOND_US)
#define REST_PART  10 /* and then it lets be for so long */
#define TEXT_MIN_S 30

static int64_t now_s(void)
{
	return (int64_t)(clock_wall_us() / SECOND_US);
}

static int64_t term_s(const struct own_certificate *c)
{
	return c->term.end_s - c->term.begin_s;
}

static char *path_of(const struct member *m, const char *name)
{
	return xasprintf("%s/%s", m->config.certificate_dir, name);
}

/* {key, NAME}: both are for free(). */
static int load(const struct member *m, const char *file, const char *name, char **ret_key,
                char **ret_text)
{
	auto_free char *path = path_of(m, file);
	auto_json json_t *all = NULL;
	const char *key = NULL, *text = NULL;
	const struct json_field fields[] = {
		{"key", JSON_FIELD_STRING, &key, true},
		{name, JSON_FIELD_STRING, &text, true},
	};
	struct buf content = BUF_INIT(FILE_BYTES);
	struct err err = {0};
	int r = buf_append_file(&content, path);

	if (r == 0 && (json_parse(buf_str(&content), content.len, &all, &err) < 0 ||
	               json_read(all, "", fields, ARRAY_SIZE(fields), &err) < 0)) {
		log_error("cluster.certificate_unreadable", "path='%s' error='%s'", path,
		          err.message);
		r = -EBADMSG;
	}
	if (r == 0) {
		*ret_key = xstrdup(key);
		*ret_text = xstrdup(text);
	}
	buf_done(&content);
	return r;
}

static int save(struct member *m, const char *file, const char *name, const char *key,
                const char *text)
{
	auto_free char *path = path_of(m, file);
	auto_json json_t *all = json_pack("{ss ss}", "key", key, name, text);
	auto_free char *content = json_dumps(all, JSON_COMPACT);
	int r = content ? fd_replace_file(AT_FDCWD, path, content, strlen(content), 0600,
	                                  /* sync= */ true)
	                : -ENOMEM;

	if (r < 0) {
		m->own.trouble = TROUBLE_UNRENEWED;
		(void)snprintf(m->own.why, sizeof(m->own.why), "cannot write %s: %s", file,
		               strerror(-r));
		log_error("cluster.renewal_not_kept", "path='%s' error='%s'", path, strerror(-r));
	}
	return r;
}

static void forget(char **secret)
{
	if (*secret)
		explicit_bzero(*secret, strlen(*secret));
	free(*secret);
	*secret = NULL;
}

/* Shows this one from now on. Takes both texts. */
static int show(struct member *m, char *key_in, char *certificate_in)
{
	auto_free char *key = key_in, *certificate = certificate_in;
	struct own_certificate *c = &m->own;
	struct peer_tls *tls = NULL;
	struct certificate_dates term;
	struct err err = {0};

	if (!node_certificate_term(certificate, &term) ||
	    peer_tls_new(key, certificate, m->config.authority->certificate, &tls, &err) < 0) {
		log_error("cluster.certificate_unreadable", "error='%s'", err.message);
		return -EBADMSG;
	}
	if (m->peers)
		peers_show(m->peers, tls);
	peer_tls_free(c->tls);
	forget(&c->key);
	free(c->certificate);
	c->key = take_ptr(key);
	c->certificate = take_ptr(certificate);
	c->tls = tls;
	c->term = term;
	return 0;
}

void own_certificate_open(struct member *m)
{
	const struct member_config *config = &m->config;
	const char *authority = config->authority->certificate;
	auto_free char *key = NULL, *certificate = NULL;
	struct certificate_dates first = {0}, renewed = {0};
	struct err err = {0};

	if (!config->key || !config->certificate || !authority)
		return;
	(void)node_certificate_term(config->certificate, &first);
	if (load(m, RENEWED, "certificate", &key, &certificate) == 0 &&
	    (authority_check(authority, certificate, key, config->node->name, &err) < 0 ||
	     !node_certificate_term(certificate, &renewed) || renewed.end_s <= first.end_s)) {
		log_info("cluster.certificate_disregarded", "file=%s error='%s'", RENEWED,
		         err.message);
		renewed.end_s = 0;
	}
	if (renewed.end_s > 0)
		(void)show(m, take_ptr(key), take_ptr(certificate));
	else
		(void)show(m, xstrdup(config->key), xstrdup(config->certificate));
	if (m->own.tls)
		(void)load(m, WANTED, "request", &m->own.next_key, &m->own.request);
}

static bool is_due(const struct member *m)
{
	const struct own_certificate *c = &m->own;

	if (c->next_key || c->term.end_s - now_s() < term_s(c) / DUE_PART)
		return true;
	/* By another authority than the one that signs now: once for each start. */
	return !c->n_renewed &&
	       !authority_is_of_first(m->config.authority->certificate, c->certificate);
}

static int draw(struct member *m)
{
	struct own_certificate *c = &m->own;
	auto_free char *key = NULL, *request = NULL;
	struct err err = {0};

	if (c->next_key)
		return 0;
	if (authority_make_request(m->config.node->name, &key, &request, &err) < 0) {
		log_error("cluster.renewal_failed", "error='%s'", err.message);
		return -EIO;
	}
	if (save(m, WANTED, "request", key, request) < 0)
		return -EIO;
	c->next_key = take_ptr(key);
	c->request = take_ptr(request);
	return 0;
}

static void take(struct member *m, const char *certificate)
{
	struct own_certificate *c = &m->own;
	auto_free char *wanted = path_of(m, WANTED);

	if (save(m, RENEWED, "certificate", c->next_key, certificate) < 0 ||
	    show(m, xstrdup(c->next_key), xstrdup(certificate)) < 0)
		return;
	(void)unlink(wanted);
	forget(&c->next_key);
	free(c->request);
	free(c->text);
	c->request = c->text = NULL;
	c->trouble = TROUBLE_NONE;
	c->why[0] = '\0';
	c->n_renewed++;
	c->look_us = clock_steady_us() + (uint64_t)term_s(c) * SECOND_US / REST_PART;
	log_info("cluster.certificate_renewed", "name=%s end_s=%" PRId64, m->config.node->name,
	         c->term.end_s);
	if (member_call(m, m->work, "SELECT cluster.end_renewal($1::int, $2)", NULL, 0,
	                member_on_work_done) < 0)
		log_debug("cluster.renewal_left", "name=%s", m->config.node->name);
}

/* What refuses it is what is told, if nobody has signed it: "CODE what". */
static void note_refusal(struct own_certificate *c, const json_t *answer)
{
	const char *text = json_string_value(json_object_get(answer, "refusal"));
	const char *code = trouble_code(TROUBLE_SUPERSEDED);

	if (!text)
		return;
	c->trouble =
		strncmp(text, code, strlen(code)) == 0 ? TROUBLE_SUPERSEDED : TROUBLE_UNRENEWED;
	(void)snprintf(c->why, sizeof(c->why), "node %" PRId64 " refuses it: %.150s",
	               (int64_t)json_integer_value(json_object_get(answer, "node")), text);
}

static void on_asked(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	struct own_certificate *c = &m->own;
	auto_json json_t *all = answer->rows ? rows_json(answer->rows, "renewal") : NULL;
	const json_t *one;
	struct err err = {0};
	size_t i;

	c->is_asking = false;
	if (!all) {
		member_on_work_done(answer, arg);
		return;
	}
	if (!c->next_key)
		return;
	c->trouble = TROUBLE_NONE;
	json_array_foreach(json_object_get(all, "answers"), i, one)
	{
		const char *certificate = json_string_value(json_object_get(one, "certificate"));

		note_refusal(c, one);
		if (!certificate)
			continue;
		if (authority_check(m->config.authority->certificate, certificate, c->next_key,
		                    m->config.node->name, &err) == 0) {
			take(m, certificate);
			return;
		}
		log_warn("cluster.certificate_forged", "by_node=%" PRId64 " error='%s'",
		         (int64_t)json_integer_value(json_object_get(one, "node")), err.message);
		c->trouble = TROUBLE_UNRENEWED;
		(void)snprintf(c->why, sizeof(c->why),
		               "node %" PRId64 " has answered with a certificate that is not "
		               "the cluster's",
		               (int64_t)json_integer_value(json_object_get(one, "node")));
	}
	if (c->trouble != TROUBLE_NONE && c->trouble != c->told)
		log_warn("cluster.trouble", "code=%s message='%s' hint='%s'",
		         trouble_code(c->trouble), c->why, trouble_hint(c->trouble));
	c->told = c->trouble;
}

/* The same text until a while has passed: then it is looked at again, as a refusal may have been a
 * mistake of that hour. */
static int write_text(struct own_certificate *c, const char *cluster_id)
{
	uint64_t part_s = (uint64_t)MAX(term_s(c) / REST_PART, TEXT_MIN_S);
	uint64_t at_s = (uint64_t)now_s() / part_s * part_s;
	char *text = NULL;
	struct err err = {0};

	if (c->text && c->text_s == at_s)
		return 0;
	if (renewal_write(&(struct renewal_ask){.cluster_id = cluster_id,
	                                        .key = c->key,
	                                        .certificate = c->certificate,
	                                        .request = c->request,
	                                        .at_s = at_s},
	                  &text, &err) < 0) {
		log_error("cluster.renewal_failed", "error='%s'", err.message);
		return -EIO;
	}
	free(c->text);
	c->text = text;
	c->text_s = at_s;
	return 0;
}

enum trouble own_certificate_problem(const struct member *m, char ret[MESSAGE_SIZE])
{
	const struct own_certificate *c = &m->own;
	int64_t left_s = c->term.end_s - now_s();

	if (!c->tls)
		return TROUBLE_NONE;
	if (left_s <= 0) {
		(void)snprintf(ret, MESSAGE_SIZE,
		               "this node's certificate has ended: no other node speaks with it");
		return TROUBLE_ENDED;
	}
	if (c->trouble != TROUBLE_NONE) {
		(void)snprintf(ret, MESSAGE_SIZE, "this node's certificate is not renewed: %s",
		               c->why);
		return c->trouble;
	}
	if (left_s < term_s(c) / WARN_PART) {
		(void)snprintf(ret, MESSAGE_SIZE,
		               "this node's certificate ends in %" PRId64
		               " days, and no node has renewed it",
		               left_s / AUTHORITY_DAY_S);
		return TROUBLE_ENDING;
	}
	return TROUBLE_NONE;
}

void own_certificate_look(struct member *m)
{
	struct own_certificate *c = &m->own;
	uint64_t now_us = clock_steady_us();
	const char *more[1];

	if (!c->tls || c->is_asking || now_us < c->look_us || !is_due(m))
		return;
	c->look_us = now_us +
	             MAX(ASK_MIN_US, MIN(ASK_MAX_US, (uint64_t)term_s(c) * SECOND_US / ASK_PART));
	if (draw(m) < 0 || write_text(c, m->config.node->cluster_id) < 0)
		return;
	more[0] = c->text;
	c->is_asking =
		member_call(m, m->work, "SELECT cluster.ask_renewal($1::int, $2, $3) AS renewal",
	                    more, ARRAY_SIZE(more), on_asked) == 0;
}
