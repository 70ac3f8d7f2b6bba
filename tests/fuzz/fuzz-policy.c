// SPDX-License-Identifier: Apache-2.0
/*
 * Policies, and the judge. The first two bytes choose a connection out of some that are told apart
 * by much, the rest is a policy. What is written of a policy and read again writes the same. And
 * the judge never changes its mind: what it denied or allowed knowing less, it does knowing all.
 */
#include "net/policy/judge.h"
#include "net/policy/secret_reference.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 8192

static const struct range_site site;

static struct policy *read_text(const char *text, size_t len)
{
	auto_json json_t *value =
		json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
	struct policy *p = NULL;
	struct err err = {0};

	if (value && policy_read(value, "policy", &p, &err) < 0)
		assert(!p && err.code != ERR_NONE && err.message[0]);
	return p;
}

static void write_text(const struct policy *p, struct buf *out, enum policy_secrets secrets)
{
	struct json_writer w;

	json_writer_init(&w, out);
	policy_write(p, &w, NULL, secrets);
	assert(json_writer_end(&w) == 0);
}

static int put_name(const char *name, struct buf *out, void *arg)
{
	(void)arg;
	assert(secret_name_is_valid(name));
	return buf_append(out, name, strlen(name));
}

/* References to secrets: a text without one is filled as it is, and others lose theirs. */
static void try_references(const char *text)
{
	auto_call(buf_done) struct buf filled = BUF_INIT(1024 * 1024);
	char name[SECRET_NAME_SIZE];
	bool has_any = secret_reference_find(text, name) != NULL;
	int r = secret_reference_fill(text, put_name, NULL, &filled);

	assert(has_any || (r == 0 && strcmp(buf_str(&filled), text) == 0));
	assert(r < 0 || !has_any || filled.len < strlen(text));
}

static void try_round_trip(const struct policy *p)
{
	auto_call(buf_done) struct buf once = BUF_INIT(1024 * 1024), twice = BUF_INIT(1024 * 1024),
				       hidden = BUF_INIT(1024 * 1024);
	struct policy *again;

	write_text(p, &once, SECRETS_SHOWN);
	write_text(p, &hidden, SECRETS_HIDDEN);
	try_references(buf_str(&once));
	again = read_text(once.data, once.len);
	assert(again);
	write_text(again, &twice, SECRETS_SHOWN);
	assert(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
	policy_free(again);
}

/* A connection of which everything is known. */
struct sight {
	struct hostname name;
	struct host host;
	struct address dialled, resolved;
	struct path path;
	struct judge_request request;
	struct judge_facts facts;
};

static void look(struct sight *s, unsigned choice)
{
	static const char *const names[] = {"a.com", "b.a.com", "localhost", ""};
	static const char *const addresses[] = {"8.8.8.8", "10.0.0.1", "169.254.169.254",
	                                        "2606::1"};
	static const char *const paths[] = {"/", "/v1/a", "/v1%2Fa", "/admin"};
	static const uint16_t ports[] = {443, 80, 22, 8080};
	const char *name = names[choice & 3], *dialled = addresses[choice >> 2 & 3];
	const char *resolved = addresses[choice >> 4 & 3], *path = paths[choice >> 8 & 3];

	*s = (struct sight){0};
	assert(address_parse(dialled, strlen(dialled), &s->dialled, NULL) == 0);
	assert(address_parse(resolved, strlen(resolved), &s->resolved, NULL) == 0);
	assert(path_parse(path, strlen(path), &s->path, NULL) == 0);
	s->facts = (struct judge_facts){.name_state = *name ? NAME_KNOWN : NAME_NONE,
	                                .dialled = &s->dialled,
	                                .resolved = *name ? &s->resolved : NULL,
	                                .port = ports[choice >> 6 & 3],
	                                .protocol = (enum policy_protocol)(1 + (choice >> 10) % 3)};
	s->host = (struct host){.is_name = *name, .address = s->dialled};
	if (*name) {
		assert(hostname_parse(name, strlen(name), &s->name, NULL) == 0);
		s->facts.name = &s->name;
		s->host.name = s->name;
	}
	s->request = (struct judge_request){.method = choice & BIT(12) ? "GET" : "POST",
	                                    .host = &s->host,
	                                    .path = &s->path,
	                                    .query = "k=v",
	                                    .query_len = 3};
	if (s->facts.protocol != PROTOCOL_OTHER)
		s->facts.request = &s->request;
}

static void check_less(const struct policy *p, const struct judge_facts *all,
                       const struct judge_facts *less)
{
	struct judge_decision early = judge(p, &site, less), late = judge(p, &site, all);

	if (early.outcome == JUDGE_DENY)
		assert(late.outcome == JUDGE_DENY);
	if (early.outcome == JUDGE_ALLOW && less->resolved == all->resolved)
		assert(late.outcome == JUDGE_ALLOW);
}

static void try_judge(const struct policy *p, unsigned choice)
{
	struct sight s;
	struct judge_facts less;
	struct judge_decision final;

	look(&s, choice);
	final = judge(p, &site, &s.facts);
	assert(final.outcome <= JUDGE_ALLOW);
	if (final.outcome == JUDGE_ALLOW && final.dial < DIAL_PROXY && p->mode == POLICY_RECORD &&
	    final.is_recorded)
		assert(range_is_open(&site, final.dial == DIAL_NAME ? &s.resolved : &s.dialled,
		                     NULL, 0));
	if (final.outcome == JUDGE_ALLOW && final.dial == DIAL_NAME)
		assert(!hostname_is_local(&s.name));

	less = s.facts;
	less.resolved = NULL;
	check_less(p, &s.facts, &less);
	less.request = NULL;
	check_less(p, &s.facts, &less);
	less.name_state = NAME_UNKNOWN;
	less.name = NULL;
	less.protocol = PROTOCOL_ANY;
	check_less(p, &s.facts, &less);
	less = s.facts;
	less.request = NULL;
	check_less(p, &s.facts, &less);
	path_done(&s.path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(policy_freep) struct policy *p = NULL;

	if (size < 3 || size > INPUT_MAX)
		return 0;
	p = read_text((const char *)data + 2, size - 2);
	if (!p)
		return 0;
	try_round_trip(p);
	try_judge(p, (unsigned)data[0] | (unsigned)data[1] << 8);
	for (unsigned choice = 0; choice < 0x2000; choice += 37)
		try_judge(p, choice);
	return 0;
}
