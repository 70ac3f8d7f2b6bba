// SPDX-License-Identifier: Apache-2.0
#include "net/policy/policy.h"

#include <string.h>

#define SSH_PORT 22

bool policy_has_ssh(const struct policy *p)
{
	for (size_t i = 0; i < p->n_rules; i++)
		if (p->rules[i].action == ACTION_SSH)
			return true;
	return false;
}

/* Whether a rule may lead any name to the address that the guest dials. Then it must be the name's
 * own. */
static bool leads_all(const struct policy_rule *rule)
{
	return rule->action != ACTION_DENY && rule->match.n_domains == 0 &&
	       rule->match.n_cidrs == 0;
}

ssize_t policy_ssh_place(const struct policy *p, const struct hostname *name)
{
	ssize_t place = 0, found = -1;

	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		if (leads_all(rule))
			return -1;
		for (size_t k = 0; rule->action == ACTION_SSH && k < rule->match.n_domains; k++) {
			if (found < 0 && hostname_is_equal(&rule->match.domains[k].name, name))
				found = place;
			place++;
		}
	}
	return found;
}

const struct hostname *policy_ssh_name(const struct policy *p, size_t place, uint16_t port)
{
	const struct hostname *name = NULL;

	for (size_t i = 0; i < p->n_rules && !name; i++) {
		const struct policy_match *m = &p->rules[i].match;

		if (p->rules[i].action != ACTION_SSH)
			continue;
		if (place < m->n_domains)
			name = &m->domains[place].name;
		else
			place -= m->n_domains;
	}
	for (size_t i = 0; name && i < p->n_rules; i++)
		if (p->rules[i].action == ACTION_SSH &&
		    policy_rule_is_about(&p->rules[i], name, port))
			return name;
	return NULL;
}

/* NAME,[NAME]:PORT… */
static int put_names(const struct policy_match *m, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < m->n_domains; i++)
		for (size_t k = 0; k < m->n_ports && r == 0; k++) {
			const char *comma = i + k > 0 ? "," : "", *name = m->domains[i].name.text;

			r = m->ports[k].first == SSH_PORT
			            ? buf_printf(out, "%s%s", comma, name)
			            : buf_printf(out, "%s[%s]:%u", comma, name, m->ports[k].first);
		}
	return r;
}

int policy_put_known_hosts(const struct policy *p, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		for (size_t k = 0; k < rule->ssh.n_host_keys && r == 0; k++) {
			r = put_names(&rule->match, out);
			if (r == 0)
				r = buf_printf(out, " %s\n",
				               ssh_host_key_text(rule->ssh.host_keys[k]));
		}
	}
	return r;
}
