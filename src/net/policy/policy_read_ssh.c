// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a rule with a key for SSH. Its hosts are whole names and single ports: each name has an
 * address of its own inside, and each is written into known_hosts there.
 */
#include "net/policy/policy_json.h"
#include "net/policy/secret_reference.h"

#include <string.h>

#define KEY_MAX       16384
#define USERS_MAX     16
#define USER_MAX      64
#define HOST_KEYS_MAX 16
#define HOST_KEY_MAX  4096
#define PORTS_MAX     4
#define SSH_PORT      22

static bool is_reference(const char *text)
{
	return secret_reference_is_alone(text) && strncmp(text, "secret:", strlen("secret:")) == 0;
}

static int read_key(struct policy_reader *r, const char *text, const char *field,
                    struct policy_ssh *ret)
{
	const char *why = NULL;

	ret->key_text = xstrdup(text);
	if (is_reference(text))
		return 0;
	if (strcmp(text, POLICY_REDACTED) == 0)
		return err_field(r->err, field, "is the text that stands for it: send its value");
	if (ssh_private_key_read(text, &ret->key, &why) < 0) {
		(void)err_field(r->err, field, "%s", why);
		return err_hint(r->err,
		                "keep a key without a passphrase by `cloche secret set NAME` "
		                "and write secret://NAME here");
	}
	return 0;
}

static bool is_user(const json_t *value)
{
	const char *text = json_string_value(value);

	if (!text || strlen(text) != json_string_length(value) || strlen(text) > USER_MAX)
		return false;
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p >= 0x7f)
			return false;
	return *text != '\0';
}

static int read_users(struct policy_reader *r, const json_t *list, const char *field,
                      struct policy_ssh *ret)
{
	ret->users = xnew0n(char *, json_array_size(list));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *value = json_array_get(list, i);

		if (!is_user(value))
			return policy_refuse_entry(
				r, field, i, json_string_value(value),
				"must be a name to log in as, of 1 to 64 letters "
				"without blanks");
		ret->users[ret->n_users++] = xstrdup(json_string_value(value));
	}
	return 0;
}

static int read_host_keys(struct policy_reader *r, const json_t *list, const char *field,
                          struct policy_ssh *ret)
{
	ret->host_keys = xnew0n(struct ssh_host_key *, json_array_size(list));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *value = json_array_get(list, i);
		const char *text = json_string_value(value), *why = "must be a string";

		if (!text || json_string_length(value) > HOST_KEY_MAX ||
		    ssh_host_key_read(text, &ret->host_keys[ret->n_host_keys], &why) < 0)
			return policy_refuse_entry(r, field, i, NULL, why);
		ret->n_host_keys++;
	}
	return 0;
}

int policy_read_ssh(struct policy_reader *r, const json_t *value, const char *prefix,
                    struct policy_rule *ret)
{
	const char *key = NULL;
	json_t *users = NULL, *host_keys = NULL;
	const struct json_field fields[] = {
		{"key", JSON_FIELD_STRING, &key, .required = true, .min = 1, .max = KEY_MAX},
		{"users", JSON_FIELD_ARRAY, &users, .required = true, .min = 1, .max = USERS_MAX},
		{"host_keys", JSON_FIELD_ARRAY, &host_keys, .required = true, .min = 1,
	         .max = HOST_KEYS_MAX},
	};
	char field[FIELD_SIZE];

	if (json_read(value, prefix, fields, ARRAY_SIZE(fields), r->err) < 0)
		return -EINVAL;
	(void)snprintf(field, sizeof(field), "%skey", prefix);
	if (++r->n_ssh > POLICY_SSH_MAX)
		return err_field(r->err, field, "a policy may have up to %d of these",
		                 POLICY_SSH_MAX);
	if (policy_count(r, field, json_array_size(users) + json_array_size(host_keys)) < 0 ||
	    read_key(r, key, field, &ret->ssh) < 0)
		return -EINVAL;
	(void)snprintf(field, sizeof(field), "%susers", prefix);
	if (read_users(r, users, field, &ret->ssh) < 0)
		return -EINVAL;
	(void)snprintf(field, sizeof(field), "%shost_keys", prefix);
	return read_host_keys(r, host_keys, field, &ret->ssh);
}

static int check_place(struct policy_reader *r, const char *prefix, const struct policy_match *m)
{
	char field[FIELD_SIZE];

	(void)snprintf(field, sizeof(field), "%sdomains", prefix);
	if (m->n_domains == 0)
		return err_field(r->err, field, "is required where a key is used");
	for (size_t i = 0; i < m->n_domains; i++)
		if (strchr(m->domains[i].name.text, '*'))
			return policy_refuse_entry(r, field, i, m->domains[i].name.text,
			                           "must be a whole name where a key is used");
	r->n_ssh_hosts += m->n_domains;
	if (r->n_ssh_hosts > POLICY_SSH_HOSTS)
		return err_field(r->err, field, "a policy may have up to %d hosts with keys",
		                 POLICY_SSH_HOSTS);
	(void)snprintf(field, sizeof(field), "%sports", prefix);
	if (m->n_ports > PORTS_MAX)
		return err_field(r->err, field, "may have up to %d where a key is used", PORTS_MAX);
	for (size_t i = 0; i < m->n_ports; i++)
		if (m->ports[i].first != m->ports[i].last)
			return policy_refuse_entry(r, field, i, NULL,
			                           "must be one port where a key is used");
	return 0;
}

int policy_check_ssh(struct policy_reader *r, const char *prefix, struct policy_rule *rule)
{
	struct policy_match *m = &rule->match;
	char field[FIELD_SIZE];

	(void)snprintf(field, sizeof(field), "%sprotocol", prefix);
	if (m->protocol != PROTOCOL_ANY ||
	    m->n_methods + m->n_paths + m->n_query + m->n_headers > 0)
		return err_field(r->err, field,
		                 "a rule with a key for SSH has no protocol, methods, paths, query "
		                 "and headers");
	if (check_place(r, prefix, m) < 0)
		return -EINVAL;
	if (m->n_ports == 0) {
		m->ports = xnew0(struct policy_ports);
		m->ports[m->n_ports++] = (struct policy_ports){SSH_PORT, SSH_PORT};
	}
	return 0;
}
