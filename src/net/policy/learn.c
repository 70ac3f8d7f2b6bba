// SPDX-License-Identifier: Apache-2.0
/*
 * Hosts are kept sorted, each with its sorted ports, so that the same connections in any order give
 * the same policy. Writing searches the hosts of each set of ports in turn. That is quadratic in
 * the number of hosts, but the number is bounded, and it is done only when somebody asks.
 */
#include "net/policy/learn.h"

#include <assert.h>
#include <string.h>

static_assert(LEARN_HOSTS_MAX * (2 + LEARN_PORTS_MAX) <= POLICY_ENTRIES_MAX,
              "a policy cannot hold all that can be learnt");

struct seen {
	struct hostname name;   /* len 0: none */
	struct address address; /* bits 0: none */
	uint16_t ports[LEARN_PORTS_MAX];
	size_t n_ports; /* LEARN_PORTS_MAX + 1: too many to name */
};

struct learner {
	struct seen *hosts;
	size_t n_hosts, n_room;
	bool is_full;
};

struct learner *learner_new(void)
{
	return xnew0(struct learner);
}

void learner_free(struct learner *l)
{
	if (l)
		free(l->hosts);
	free(l);
}

bool learner_is_full(const struct learner *l)
{
	return l->is_full;
}

static int compare(const struct seen *a, const struct seen *b)
{
	int r = hostname_compare(&a->name, &b->name);

	if (r == 0)
		r = a->address.bits - b->address.bits;
	return r ? r : memcmp(a->address.bytes, b->address.bytes, sizeof(a->address.bytes));
}

static bool add_port(struct seen *host, uint16_t port)
{
	size_t at = 0;

	if (host->n_ports > LEARN_PORTS_MAX)
		return false;
	while (at < host->n_ports && host->ports[at] < port)
		at++;
	if (at < host->n_ports && host->ports[at] == port)
		return false;
	if (host->n_ports == LEARN_PORTS_MAX) {
		host->n_ports++;
		return true;
	}
	memmove(host->ports + at + 1, host->ports + at,
	        (host->n_ports - at) * sizeof(host->ports[0]));
	host->ports[at] = port;
	host->n_ports++;
	return true;
}

/* The host, made if it is new; NULL if there is no room for it. */
static struct seen *find_host(struct learner *l, const struct seen *wanted)
{
	size_t first = 0, end = l->n_hosts;

	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (compare(&l->hosts[middle], wanted) < 0)
			first = middle + 1;
		else
			end = middle;
	}
	if (first < l->n_hosts && compare(&l->hosts[first], wanted) == 0)
		return &l->hosts[first];
	if (l->n_hosts == LEARN_HOSTS_MAX) {
		l->is_full = true;
		return NULL;
	}
	if (l->n_hosts == l->n_room) {
		l->n_room = MAX(l->n_room * 2, (size_t)8);
		l->hosts = xrealloc(l->hosts, l->n_room * sizeof(l->hosts[0]));
	}
	memmove(l->hosts + first + 1, l->hosts + first, (l->n_hosts - first) * sizeof(l->hosts[0]));
	l->hosts[first] = *wanted;
	l->n_hosts++;
	return &l->hosts[first];
}

bool learner_add(struct learner *l, const struct hostname *name, const struct address *address,
                 uint16_t port)
{
	struct seen wanted = {0}, *host;

	if (name)
		wanted.name = *name;
	if (address)
		wanted.address = *address;
	host = find_host(l, &wanted);
	return host && add_port(host, port);
}

/* Whether two hosts can share a rule without giving either more than it had.
 */
static bool can_share(const struct seen *a, const struct seen *b)
{
	bool are_names = a->address.bits == 0 && b->address.bits == 0;
	bool are_addresses = a->name.len == 0 && b->name.len == 0;

	return (are_names || are_addresses) && a->n_ports == b->n_ports &&
	       (a->n_ports > LEARN_PORTS_MAX ||
	        memcmp(a->ports, b->ports, a->n_ports * sizeof(a->ports[0])) == 0);
}

static void write_host(struct json_writer *w, const struct seen *host, bool wants_name)
{
	struct cidr itself = {.first = host->address, .prefix = host->address.bits};
	char text[CIDR_SIZE];

	if (wants_name) {
		json_put_str(w, NULL, host->name.text);
		return;
	}
	cidr_format(&itself, text);
	json_put_str(w, NULL, text);
}

/* Writes the names or the addresses of the hosts that share a rule with the one at i. */
static void write_hosts(const struct learner *l, struct json_writer *w, size_t i, bool wants_name)
{
	const struct seen *first = &l->hosts[i];

	if (wants_name ? first->name.len == 0 : first->address.bits == 0)
		return;
	json_open_array(w, wants_name ? "domains" : "cidrs");
	for (size_t j = i; j < l->n_hosts; j++)
		if (j == i || can_share(first, &l->hosts[j]))
			write_host(w, &l->hosts[j], wants_name);
	json_close_array(w);
}

static void write_rule(const struct learner *l, struct json_writer *w, size_t i)
{
	const struct seen *first = &l->hosts[i];

	json_open_object(w, NULL);
	json_open_object(w, "match");
	write_hosts(l, w, i, /* wants_name= */ true);
	write_hosts(l, w, i, /* wants_name= */ false);
	if (first->n_ports <= LEARN_PORTS_MAX) {
		json_open_array(w, "ports");
		for (size_t j = 0; j < first->n_ports; j++)
			json_put_u64(w, NULL, first->ports[j]);
		json_close_array(w);
	}
	json_close_object(w);
	json_put_str(w, "action", "allow");
	json_close_object(w);
}

static bool is_written(const struct learner *l, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (can_share(&l->hosts[j], &l->hosts[i]))
			return true;
	return false;
}

void learner_write(const struct learner *l, struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	json_put_str(w, "mode", "enforce");
	json_open_array(w, "rules");
	for (size_t i = 0; i < l->n_hosts; i++)
		if (!is_written(l, i))
			write_rule(l, w, i);
	json_close_array(w);
	json_close_object(w);
}
