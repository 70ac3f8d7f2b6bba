// SPDX-License-Identifier: Apache-2.0
/*
 * What a program asks to be signed is read in full, and must be a login and nothing else: data that
 * another protocol could take for its own is never signed. The policy is looked at for each
 * message, so a rule or key that is gone is gone at once.
 */
#include "net/policy/ssh_signer.h"

#include "net/ssh/wire.h"

#define FAILURE            5
#define SUCCESS            6
#define REQUEST_IDENTITIES 11
#define IDENTITIES_ANSWER  12
#define SIGN_REQUEST       13
#define SIGN_RESPONSE      14
#define EXTENSION          27
#define USERAUTH_REQUEST   50 /* RFC 4252 */
#define RSA_SHA2_256       BIT(1)
#define RSA_SHA2_512       BIT(2)
#define ANSWER_MAX         ((size_t)64 * 1024)

static const char bind_name[] = "session-bind@openssh.com";

/* What a login has signed: RFC 4252, 7, and PROTOCOL of OpenSSH for the second method. */
struct login {
	struct cursor session_id, user, algorithm, key, host_key;
	bool has_host_key;
};

void ssh_signer_init(struct ssh_signer *s)
{
	*s = (struct ssh_signer){0};
	buf_init(&s->host_key, SSH_SIGNER_MESSAGE_MAX);
}

void ssh_signer_done(struct ssh_signer *s)
{
	buf_done(&s->host_key);
}

bool ssh_signer_is_costly(const void *message, size_t len)
{
	const uint8_t *first = message;

	return len > 0 && (first[0] == SIGN_REQUEST || first[0] == EXTENSION);
}

static bool is_pinned(const struct policy_rule *rule, const void *blob, size_t len)
{
	for (size_t i = 0; i < rule->ssh.n_host_keys; i++)
		if (ssh_host_key_is(rule->ssh.host_keys[i], blob, len))
			return true;
	return false;
}

/* Another rule before it may deny all of its hosts. */
static bool is_open(const struct policy *p, const struct range_site *site,
                    const struct policy_rule *rule)
{
	for (size_t i = 0; i < rule->match.n_domains; i++)
		for (size_t k = 0; k < rule->match.n_ports; k++) {
			const struct judge_facts facts = {.name_state = NAME_KNOWN,
			                                  .name = &rule->match.domains[i].name,
			                                  .port = rule->match.ports[k].first,
			                                  .protocol = PROTOCOL_OTHER};

			if (judge(p, site, &facts).outcome != JUDGE_DENY)
				return true;
		}
	return false;
}

static bool has_key(const struct policy_rule *rule)
{
	return rule->action == ACTION_SSH && rule->ssh.key;
}

static const char *take_binding(struct ssh_signer *s, const struct policy *p, struct cursor *c)
{
	const struct cursor host_key = ssh_string(c), session_id = ssh_string(c),
			    signature = ssh_string(c);
	const bool is_forwarded = cursor_u8(c) != 0, is_first = !s->is_asked;

	s->is_asked = true;
	s->is_bound = false;
	if (!ssh_is_over(c) || session_id.left < SSH_SESSION_ID_MIN ||
	    session_id.left > SSH_SESSION_ID_MAX)
		return "its binding to a session is broken";
	if (!is_first)
		return "it is bound to a session already";
	if (is_forwarded)
		return "the key is not for other machines";
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		for (size_t k = 0; has_key(rule) && k < rule->ssh.n_host_keys; k++) {
			const struct ssh_host_key *key = rule->ssh.host_keys[k];

			if (!ssh_host_key_is(key, host_key.at, host_key.left))
				continue;
			if (!ssh_host_key_has_signed(key, signature.at, signature.left,
			                             session_id.at, session_id.left))
				return "the host has not signed that session";
			memcpy(s->session_id, session_id.at, session_id.left);
			s->session_id_len = session_id.left;
			s->is_bound = buf_append(&s->host_key, host_key.at, host_key.left) == 0;
			return NULL;
		}
	}
	return "no rule has the key of that host";
}

/* Before a binding: all of them, for who wants to see what there is. */
static bool is_shown(const struct ssh_signer *s, const struct policy *p, size_t i)
{
	const struct policy_rule *rule = &p->rules[i];
	const struct buf *public = has_key(rule) ? ssh_private_key_public(rule->ssh.key) : NULL;

	if (!public || (s->is_asked && !s->is_bound) ||
	    (s->is_bound && !is_pinned(rule, s->host_key.data, s->host_key.len)))
		return false;
	for (size_t k = 0; k < i; k++) { /* the same key again */
		const struct buf *other =
			has_key(&p->rules[k]) ? ssh_private_key_public(p->rules[k].ssh.key) : NULL;

		if (other && other->len == public->len &&
		    memcmp(other->data, public->data, public->len) == 0 && is_shown(s, p, k))
			return false;
	}
	return true;
}

static int put_identities(const struct ssh_signer *s, const struct policy *p, struct buf *out)
{
	const uint8_t type = IDENTITIES_ANSWER;
	uint32_t n = 0;
	int r;

	for (size_t i = 0; i < p->n_rules; i++)
		n += is_shown(s, p, i);
	r = buf_append(out, &type, 1);
	if (r == 0)
		r = ssh_put_u32(out, n);
	for (size_t i = 0; i < p->n_rules && r == 0; i++) {
		const struct buf *public;

		if (!is_shown(s, p, i))
			continue;
		public = ssh_private_key_public(p->rules[i].ssh.key);
		r = ssh_put_string(out, public->data, public->len);
		if (r == 0)
			r = ssh_put_text(out, p->rules[i].match.domains[0].name.text);
	}
	return r;
}

static bool read_login(struct cursor c, struct login *ret)
{
	struct cursor service, method;
	uint8_t type, is_signed;

	ret->session_id = ssh_string(&c);
	type = cursor_u8(&c);
	ret->user = ssh_string(&c);
	service = ssh_string(&c);
	method = ssh_string(&c);
	is_signed = cursor_u8(&c);
	ret->algorithm = ssh_string(&c);
	ret->key = ssh_string(&c);
	ret->has_host_key = ssh_is_text(&method, "publickey-hostbound-v00@openssh.com");
	if (ret->has_host_key)
		ret->host_key = ssh_string(&c);
	return ssh_is_over(&c) && type == USERAUTH_REQUEST && is_signed == 1 &&
	       ssh_is_text(&service, "ssh-connection") &&
	       (ret->has_host_key || ssh_is_text(&method, "publickey"));
}

static bool is_same(const struct cursor *c, const void *data, size_t len)
{
	return !c->failed && c->left == len && memcmp(c->at, data, len) == 0;
}

static bool has_user(const struct policy_rule *rule, const struct cursor *user)
{
	for (size_t i = 0; i < rule->ssh.n_users; i++)
		if (ssh_is_text(user, rule->ssh.users[i]))
			return true;
	return false;
}

/* The rule by which the login is signed, or JUDGE_NO_RULE with the reason. */
static size_t find_rule(const struct ssh_signer *s, const struct policy *p,
                        const struct range_site *site, const struct login *l, const char **why)
{
	*why = "no rule has that key for that host";
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];
		const struct buf *public =
			has_key(rule) ? ssh_private_key_public(rule->ssh.key) : NULL;

		if (!public || !is_same(&l->key, public->data, public->len) ||
		    !is_pinned(rule, s->host_key.data, s->host_key.len))
			continue;
		if (!has_user(rule, &l->user))
			*why = "the rule does not name that user";
		else if (!is_open(p, site, rule))
			*why = "a rule denies it";
		else
			return i;
	}
	return JUDGE_NO_RULE;
}

/* The flags say again what the login says; programs that set none mean SHA-1. */
static bool has_flags(uint32_t flags, const struct cursor *algorithm)
{
	if (ssh_is_text(algorithm, "rsa-sha2-256"))
		return flags == RSA_SHA2_256;
	if (ssh_is_text(algorithm, "rsa-sha2-512"))
		return flags == RSA_SHA2_512;
	return !ssh_is_text(algorithm, "ssh-rsa");
}

static const char *check_login(const struct ssh_signer *s, const struct login *l,
                               const struct cursor *key, uint32_t flags)
{
	if (!s->is_bound)
		return "it is not bound to a session: ssh is older than OpenSSH 8.9";
	if (!is_same(&l->session_id, s->session_id, s->session_id_len))
		return "it is for another session";
	if (l->has_host_key && !is_same(&l->host_key, s->host_key.data, s->host_key.len))
		return "it is for another host";
	if (!is_same(key, l->key.at, l->key.left))
		return "it is for another key";
	return has_flags(flags, &l->algorithm) ? NULL : "it wants a signature by SHA-1";
}

static const char *sign(const struct ssh_signer *s, const struct policy *p,
                        const struct range_site *site, struct cursor *c, struct buf *out,
                        size_t *ret_rule)
{
	auto_call(buf_done) struct buf signature = BUF_INIT(SSH_SIGNER_MESSAGE_MAX);
	const struct cursor key = ssh_string(c), data = ssh_string(c);
	const uint32_t flags = cursor_u32(c);
	const uint8_t type = SIGN_RESPONSE;
	const char *why = "it is no login by SSH";
	struct login l = {0};

	if (!ssh_is_over(c) || !read_login(data, &l))
		return why;
	why = check_login(s, &l, &key, flags);
	if (why)
		return why;
	*ret_rule = find_rule(s, p, site, &l, &why);
	if (*ret_rule == JUDGE_NO_RULE)
		return why;
	if (ssh_private_key_sign(p->rules[*ret_rule].ssh.key, (const char *)l.algorithm.at,
	                         l.algorithm.left, data.at, data.left, &signature) < 0 ||
	    buf_append(out, &type, 1) < 0 || ssh_put_string(out, signature.data, signature.len) < 0)
		return "the key has no such algorithm";
	return NULL;
}

static int put_type(struct buf *out, uint8_t type)
{
	return buf_append(out, &type, 1);
}

int ssh_signer_answer(struct ssh_signer *s, const struct policy *p, const struct range_site *site,
                      const void *message, size_t len, struct buf *out,
                      struct ssh_signer_report *ret)
{
	auto_call(buf_done) struct buf answer = BUF_INIT(ANSWER_MAX);
	struct cursor c = {message, len, false};
	const uint8_t type = cursor_u8(&c);
	struct cursor name;
	int r = 0;

	*ret = (struct ssh_signer_report){.rule = JUDGE_NO_RULE};
	if (type == REQUEST_IDENTITIES && ssh_is_over(&c)) {
		r = put_identities(s, p, &answer);
	} else if (type == SIGN_REQUEST) {
		ret->why = sign(s, p, site, &c, &answer, &ret->rule);
		ret->outcome = ret->why ? SIGNER_REFUSED : SIGNER_SIGNED;
	} else if (type == EXTENSION && (name = ssh_string(&c), ssh_is_text(&name, bind_name))) {
		ret->why = take_binding(s, p, &c);
		ret->outcome = ret->why ? SIGNER_REFUSED : SIGNER_TOLD;
		if (!ret->why)
			r = put_type(&answer, SUCCESS);
	} else {
		r = put_type(&answer, FAILURE); /* all that adds, removes or locks keys */
	}
	if (ret->why) {
		buf_truncate(&answer, 0);
		r = put_type(&answer, FAILURE);
	}
	return r < 0 ? r : ssh_put_string(out, answer.data, answer.len);
}
