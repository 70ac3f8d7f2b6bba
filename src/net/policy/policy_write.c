// SPDX-License-Identifier: Apache-2.0
#include "net/policy/identity_reference.h"
#include "net/policy/policy_json.h"
#include "net/policy/secret_reference.h"

#include <string.h>

static void write_text(struct json_writer *w, const char *name, const struct policy_text *t)
{
	if (t->kind == TEXT_ANY)
		return;
	json_open_object(w, name);
	json_put_str(w, policy_text_names[t->kind], t->text);
	json_close_object(w);
}

static void write_pairs(struct json_writer *w, const char *name, const struct policy_pair *pairs,
                        size_t n)
{
	if (n == 0)
		return;
	json_open_array(w, name);
	for (size_t i = 0; i < n; i++) {
		json_open_object(w, NULL);
		write_text(w, "name", &pairs[i].name);
		write_text(w, "value", &pairs[i].value);
		json_close_object(w);
	}
	json_close_array(w);
}

static void write_ports(struct json_writer *w, const struct policy_ports *ports)
{
	char text[16];

	if (ports->first == ports->last) {
		json_put_u64(w, NULL, ports->first);
		return;
	}
	(void)snprintf(text, sizeof(text), "%u-%u", ports->first, ports->last);
	json_put_str(w, NULL, text);
}

/* The lists that name hosts. */
static void write_place(struct json_writer *w, const struct policy_match *m)
{
	if (m->n_domains > 0)
		json_open_array(w, "domains");
	for (size_t i = 0; i < m->n_domains; i++)
		json_put_str(w, NULL, m->domains[i].name.text);
	if (m->n_domains > 0)
		json_close_array(w);
	if (m->n_cidrs > 0)
		json_open_array(w, "cidrs");
	for (size_t i = 0; i < m->n_cidrs; i++) {
		char text[CIDR_SIZE];

		cidr_format(&m->cidrs[i], text);
		json_put_str(w, NULL, text);
	}
	if (m->n_cidrs > 0)
		json_close_array(w);
	if (m->n_ports > 0)
		json_open_array(w, "ports");
	for (size_t i = 0; i < m->n_ports; i++)
		write_ports(w, &m->ports[i]);
	if (m->n_ports > 0)
		json_close_array(w);
	if (m->protocol != PROTOCOL_ANY)
		json_put_str(w, "protocol", m->protocol == PROTOCOL_TLS ? "tls" : "http");
}

static void write_match(struct json_writer *w, const struct policy_match *m)
{
	json_open_object(w, "match");
	write_place(w, m);
	if (m->n_methods > 0)
		json_open_array(w, "methods");
	for (size_t i = 0; i < m->n_methods; i++)
		json_put_str(w, NULL, m->methods[i]);
	if (m->n_methods > 0)
		json_close_array(w);
	if (m->n_paths > 0)
		json_open_array(w, "paths");
	for (size_t i = 0; i < m->n_paths; i++)
		write_text(w, NULL, &m->paths[i]);
	if (m->n_paths > 0)
		json_close_array(w);
	write_pairs(w, "query", m->query, m->n_query);
	write_pairs(w, "headers", m->headers, m->n_headers);
	json_close_object(w);
}

static const char *secret(const char *text, enum policy_secrets secrets)
{
	return secrets == SECRETS_SHOWN || secret_reference_is_alone(text) ||
	                       identity_reference_audience(text)
	               ? text
	               : POLICY_REDACTED;
}

/* Fields that a rule sets in requests are secrets. Those of a fixed response are not: the client
 * sees them. */
static void write_headers(struct json_writer *w, const struct policy_rule *rule,
                          enum policy_secrets secrets)
{
	enum policy_secrets shown = rule->action == ACTION_TRANSFORM ? secrets : SECRETS_SHOWN;

	json_open_object(w, "headers");
	for (size_t i = 0; i < rule->n_headers; i++)
		json_put_str(w, rule->headers[i].name, secret(rule->headers[i].value, shown));
	json_close_object(w);
}

static bool has_scrub(const struct policy_rule *rule)
{
	for (size_t i = 0; i < rule->n_headers; i++)
		if (rule->headers[i].is_scrubbed)
			return true;
	return false;
}

static void write_scrub(struct json_writer *w, const struct policy_rule *rule)
{
	json_open_array(w, "scrub");
	for (size_t i = 0; i < rule->n_headers; i++)
		if (rule->headers[i].is_scrubbed)
			json_put_str(w, NULL, rule->headers[i].name);
	json_close_array(w);
}

static void write_target(struct json_writer *w, const struct policy_target *t,
                         enum policy_secrets secrets)
{
	if (t->url_text)
		json_put_str(w, "url", t->url_text);
	if (t->username)
		json_put_str(w, "username", t->username);
	if (t->password)
		json_put_str(w, "password", secret(t->password, secrets));
}

static void write_ssh(struct json_writer *w, const struct policy_ssh *ssh,
                      enum policy_secrets secrets)
{
	json_put_str(w, "key", secret(ssh->key_text, secrets));
	json_open_array(w, "users");
	for (size_t i = 0; i < ssh->n_users; i++)
		json_put_str(w, NULL, ssh->users[i]);
	json_close_array(w);
	json_open_array(w, "host_keys");
	for (size_t i = 0; i < ssh->n_host_keys; i++)
		json_put_str(w, NULL, ssh_host_key_text(ssh->host_keys[i]));
	json_close_array(w);
}

static void write_action(struct json_writer *w, const struct policy_rule *rule,
                         enum policy_secrets secrets)
{
	const char *name = policy_action_name(rule->action);

	if (rule->action == ACTION_ALLOW || rule->action == ACTION_DENY) {
		json_put_str(w, "action", name);
		return;
	}
	json_open_object(w, "action");
	json_open_object(w, name);
	if (rule->action == ACTION_RESPOND)
		json_put_u64(w, "status", rule->status);
	write_target(w, &rule->target, secrets);
	if (rule->headers)
		write_headers(w, rule, secrets);
	if (has_scrub(rule))
		write_scrub(w, rule);
	if (rule->body) {
		json_put_str(w, "content_type", rule->content_type);
		json_put_str(w, "body", rule->body);
	}
	if (rule->action == ACTION_SSH)
		write_ssh(w, &rule->ssh, secrets);
	json_close_object(w);
	json_close_object(w);
}

static bool is_empty(const struct policy_match *m)
{
	return m->n_domains + m->n_cidrs + m->n_ports + m->n_methods + m->n_paths + m->n_query +
	                       m->n_headers ==
	               0 &&
	       m->protocol == PROTOCOL_ANY;
}

/* The string for a policy that needs no object, or NULL. */
static const char *find_word(const struct policy *p)
{
	if (p->mode != POLICY_ENFORCE || p->connections_max || p->bytes_per_second ||
	    p->proxy.url_text)
		return NULL;
	if (p->n_rules == 0)
		return "deny-all";
	if (p->n_rules == 1 && p->rules[0].action == ACTION_ALLOW && is_empty(&p->rules[0].match))
		return "allow-all";
	return NULL;
}

static void write_identity(struct json_writer *w, const struct policy *p)
{
	if (p->n_audiences == 0)
		return;
	json_open_object(w, "identity");
	json_open_array(w, "audiences");
	for (size_t i = 0; i < p->n_audiences; i++)
		json_put_str(w, NULL, p->audiences[i]);
	json_close_array(w);
	json_close_object(w);
}

void policy_write(const struct policy *p, struct json_writer *w, const char *name,
                  enum policy_secrets secrets)
{
	const char *word = find_word(p);

	if (word) {
		json_put_str(w, name, word);
		return;
	}
	json_open_object(w, name);
	json_put_str(w, "mode", p->mode == POLICY_RECORD ? "record" : "enforce");
	if (p->resets)
		json_put_str(w, "refusals", "reset");
	json_open_array(w, "rules");
	for (size_t i = p->n_identity_rules; i < p->n_rules; i++) {
		json_open_object(w, NULL);
		if (!is_empty(&p->rules[i].match))
			write_match(w, &p->rules[i].match);
		write_action(w, &p->rules[i], secrets);
		json_close_object(w);
	}
	json_close_array(w);
	write_identity(w, p);
	if (p->proxy.url_text) {
		json_open_object(w, "proxy");
		write_target(w, &p->proxy, secrets);
		json_close_object(w);
	}
	if (p->connections_max || p->bytes_per_second) {
		json_open_object(w, "limits");
		if (p->connections_max)
			json_put_u64(w, "connections", p->connections_max);
		if (p->bytes_per_second)
			json_put_u64(w, "bytes_per_second", p->bytes_per_second);
		json_close_object(w);
	}
	json_close_object(w);
}
