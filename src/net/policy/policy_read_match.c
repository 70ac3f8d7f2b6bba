// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the conditions of a rule. Texts are kept in the form in which they are compared: header
 * names in lower case, paths normalised. A path that is not normalised could never match, so it is
 * refused.
 */
#include "net/policy/policy_json.h"

#include "base/parse.h"
#include "net/match/glob.h"
#include "net/match/path.h"
#include "net/match/regex.h"

#include <string.h>

#define LIST_MAX       1024
#define SHORT_LIST_MAX 64
#define METHOD_MAX     32

/* What a text is compared with. */
enum text_use {
	USE_PATH,
	USE_NAME, /* of a header */
	USE_VALUE,
};

struct list {
	const json_t *array;
	const char *field;
};

static int refuse(struct policy_reader *r, const struct list *l, size_t i, const char *text,
                  const char *why)
{
	return policy_refuse_entry(r, l->field, i, text, why);
}

static int read_domains(struct policy_reader *r, const struct list *l, struct policy_match *m)
{
	m->domains = xnew0n(struct hostname_pattern, json_array_size(l->array));
	for (size_t i = 0; i < json_array_size(l->array); i++)
		if (policy_read_domain(r, l->field, i, json_array_get(l->array, i),
		                       &m->domains[m->n_domains++]) < 0)
			return -EINVAL;
	return 0;
}

static int read_cidrs(struct policy_reader *r, const struct list *l, struct policy_match *m)
{
	m->cidrs = xnew0n(struct cidr, json_array_size(l->array));
	for (size_t i = 0; i < json_array_size(l->array); i++)
		if (policy_read_cidr(r, l->field, i, json_array_get(l->array, i),
		                     &m->cidrs[m->n_cidrs++]) < 0)
			return -EINVAL;
	return 0;
}

/* 443, or "8000-8999". */
static int parse_ports(const json_t *value, struct policy_ports *ret)
{
	const char *text = json_string_value(value), *dash = text ? strchr(text, '-') : NULL;
	uint64_t first, last;
	char digits[8] = "";

	if (json_is_integer(value)) {
		first = last = (uint64_t)json_integer_value(value);
	} else {
		if (!dash || dash - text >= (ptrdiff_t)sizeof(digits))
			return -EINVAL;
		memcpy(digits, text, (size_t)(dash - text));
		if (parse_u64(digits, UINT16_MAX, &first) < 0 ||
		    parse_u64(dash + 1, UINT16_MAX, &last) < 0)
			return -EINVAL;
	}
	if (first < 1 || first > last || last > UINT16_MAX)
		return -EINVAL;
	*ret = (struct policy_ports){(uint16_t)first, (uint16_t)last};
	return 0;
}

static int read_ports(struct policy_reader *r, const struct list *l, struct policy_match *m)
{
	m->ports = xnew0n(struct policy_ports, json_array_size(l->array));
	for (size_t i = 0; i < json_array_size(l->array); i++)
		if (parse_ports(json_array_get(l->array, i), &m->ports[m->n_ports++]) < 0)
			return refuse(r, l, i, NULL,
			              "must be a number from 1 to 65535 or a text such as "
			              "'8000-8999'");
	return 0;
}

/* Methods are case-sensitive, and all that are in use are in capitals. */
static int read_methods(struct policy_reader *r, const struct list *l, struct policy_match *m)
{
	m->methods = xnew0n(char *, json_array_size(l->array));
	for (size_t i = 0; i < json_array_size(l->array); i++) {
		const char *text = json_string_value(json_array_get(l->array, i));

		if (!text || *text == '\0' || strlen(text) > METHOD_MAX ||
		    text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_")] != '\0')
			return refuse(r, l, i, NULL, "must be a method in capitals such as 'GET'");
		m->methods[m->n_methods++] = xstrdup(text);
	}
	return 0;
}

static int check_path(const struct policy_text *t, const char **why)
{
	struct path path = {0};
	bool is_same;

	if (t->kind == TEXT_REGEX)
		return 0;
	if (t->kind == TEXT_PATTERN) {
		if (t->text[0] != '/' && t->text[0] != '*')
			return refuse_as(why, "does not begin with '/' or '*'");
		return 0;
	}
	if (path_parse(t->text, strlen(t->text), &path, why) < 0)
		return -EINVAL;
	is_same = strcmp(path.text, t->text) == 0;
	path_done(&path);
	return is_same ? 0
	               : refuse_as(why, "is not the form in which paths are compared: leave out "
	                                "'.', '..', '//' and needless escapes");
}

static void to_small(char *text)
{
	for (; *text; text++)
		if (*text >= 'A' && *text <= 'Z')
			*text = (char)(*text + ('a' - 'A'));
}

static int read_regex(struct policy_reader *r, enum text_use use, struct policy_text *t,
                      const char **why)
{
	if (regex_new(t->text, use == USE_NAME, &t->regex, why) < 0)
		return -EINVAL;
	r->n_states += regex_states(t->regex);
	return r->n_states > POLICY_STATES_MAX
	               ? refuse_as(why,
	                           "is too much: a policy's expressions have up to 2048 states")
	               : 0;
}

/* A string, or an object with one of exact, prefix, pattern and regex. *ret is the rule's to free.
 */
static int read_text(struct policy_reader *r, const json_t *value, enum text_use use,
                     struct policy_text *ret, const char **why)
{
	const json_t *text = value;

	ret->kind = TEXT_EXACT;
	if (json_is_object(value)) {
		for (ret->kind = TEXT_EXACT; ret->kind < TEXT_KIND_COUNT; ret->kind++)
			if ((text = json_object_get(value, policy_text_names[ret->kind])))
				break;
	}
	if (!json_is_string(text) || (json_is_object(value) && json_object_size(value) != 1)) {
		ret->kind = TEXT_ANY;
		return refuse_as(
			why, "must be a string or have one of exact, prefix, pattern and regex");
	}
	ret->text = xstrdup(json_string_value(text));
	if (strlen(ret->text) != json_string_length(text))
		return refuse_as(why, "has a NUL");
	if (use == USE_NAME && ret->kind != TEXT_REGEX)
		to_small(ret->text);
	if (ret->kind == TEXT_PATTERN && ++r->n_patterns > POLICY_PATTERNS_MAX)
		return refuse_as(why, "is a pattern too many: a policy has up to 256");
	if (ret->kind == TEXT_PATTERN && glob_check(ret->text, why) < 0)
		return -EINVAL;
	if (ret->kind == TEXT_REGEX && read_regex(r, use, ret, why) < 0)
		return -EINVAL;
	return use == USE_PATH ? check_path(ret, why) : 0;
}

static int read_paths(struct policy_reader *r, const struct list *l, struct policy_match *m)
{
	m->paths = xnew0n(struct policy_text, json_array_size(l->array));
	for (size_t i = 0; i < json_array_size(l->array); i++) {
		struct policy_text *t = &m->paths[m->n_paths++];
		const char *why = NULL;

		if (read_text(r, json_array_get(l->array, i), USE_PATH, t, &why) < 0)
			return refuse(r, l, i, t->text, why);
	}
	return 0;
}

static int read_pair(struct policy_reader *r, const json_t *value, enum text_use use_of_name,
                     struct policy_pair *ret, const char **why)
{
	const json_t *name = json_object_get(value, "name");
	const json_t *text = json_object_get(value, "value");
	size_t n_known = (name ? 1U : 0U) + (text ? 1U : 0U);

	if (!json_is_object(value) || n_known == 0 || json_object_size(value) != n_known)
		return refuse_as(why, "must have a name, a value or both, and nothing else");
	if (name && read_text(r, name, use_of_name, &ret->name, why) < 0)
		return -EINVAL;
	return text ? read_text(r, text, USE_VALUE, &ret->value, why) : 0;
}

static int read_pairs(struct policy_reader *r, const struct list *l, enum text_use use_of_name,
                      struct policy_pair **ret, size_t *ret_n)
{
	*ret = xnew0n(struct policy_pair, json_array_size(l->array));
	for (size_t i = 0; i < json_array_size(l->array); i++) {
		const char *why = NULL;

		if (read_pair(r, json_array_get(l->array, i), use_of_name, &(*ret)[(*ret_n)++],
		              &why) < 0)
			return refuse(r, l, i, NULL, why);
	}
	return 0;
}

static int read_query(struct policy_reader *r, const struct list *l, struct policy_match *m)
{
	return read_pairs(r, l, USE_VALUE, &m->query, &m->n_query);
}

static int read_headers(struct policy_reader *r, const struct list *l, struct policy_match *m)
{
	return read_pairs(r, l, USE_NAME, &m->headers, &m->n_headers);
}

static int read_protocol(struct policy_reader *r, const char *prefix, const char *word,
                         struct policy_match *m)
{
	char field[FIELD_SIZE];

	(void)snprintf(field, sizeof(field), "%sprotocol", prefix);
	if (strcmp(word, "tls") == 0)
		m->protocol = PROTOCOL_TLS;
	else if (strcmp(word, "http") == 0)
		m->protocol = PROTOCOL_HTTP;
	else if (strcmp(word, "any") != 0)
		return err_field(r->err, field, "must be 'tls', 'http' or 'any'");
	return 0;
}

int policy_read_match(struct policy_reader *r, const json_t *value, const char *prefix,
                      struct policy_match *ret)
{
	/* An empty list would match nothing where its author may have meant anything. */
	static const struct {
		const char *name;
		uint64_t max;
		int (*read)(struct policy_reader *r, const struct list *l, struct policy_match *m);
	} lists[] = {
		{"domains", LIST_MAX, read_domains},
		{"cidrs", LIST_MAX, read_cidrs},
		{"ports", SHORT_LIST_MAX, read_ports},
		{"methods", SHORT_LIST_MAX, read_methods},
		{"paths", LIST_MAX, read_paths},
		{"query", SHORT_LIST_MAX, read_query},
		{"headers", SHORT_LIST_MAX, read_headers},
	};
	json_t *arrays[ARRAY_SIZE(lists)] = {0};
	struct json_field fields[ARRAY_SIZE(lists) + 1];
	const char *protocol = "any";
	int result;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		fields[i] = (struct json_field){lists[i].name, JSON_FIELD_ARRAY, &arrays[i],
		                                .min = 1, .max = lists[i].max};
	fields[ARRAY_SIZE(lists)] = (struct json_field){"protocol", JSON_FIELD_STRING, &protocol};
	result = json_read(value, prefix, fields, ARRAY_SIZE(fields), r->err);
	if (result == 0)
		result = read_protocol(r, prefix, protocol, ret);
	for (size_t i = 0; i < ARRAY_SIZE(lists) && result == 0; i++) {
		char field[FIELD_SIZE];

		if (!arrays[i])
			continue;
		(void)snprintf(field, sizeof(field), "%s%s", prefix, lists[i].name);
		result = policy_count(r, field, json_array_size(arrays[i]));
		if (result == 0)
			result = lists[i].read(r, &(struct list){arrays[i], field}, ret);
	}
	return result;
}
