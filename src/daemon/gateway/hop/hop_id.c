// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/hop/hop_id.h"

#include "cluster/tag.h"
#include "http/target.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Kinds of ids that stand in paths, and belong to one node. */
static const char *const kinds[] = {"sb", "sn", "vo", "bld", "gr", "bt", "rs", "mcp"};
/* Segments behind which E2B's clients write an id without its kind. */
static const struct {
	const char *segment, *kind;
} bare[] = {{"sandboxes", "sb"}, {"p", "sb"}, {"volumes", "vo"}, {"volumecontent", "vo"}};

#define VERCELS "snap_"

static bool take(const char *text, size_t len, const char *kind, struct hop_id *ret)
{
	char id[ID_SIZE];

	if (len >= sizeof(id) - 8)
		return false;
	if (kind)
		(void)snprintf(id, sizeof(id), "%s_%.*s", kind, (int)len, text);
	else
		(void)snprintf(id, sizeof(id), "%.*s", (int)len, text);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (id_is_valid(id, kinds[i])) {
			memcpy(ret->text, id, sizeof(id));
			return true;
		}
	return false;
}

/* Of a build, as E2B's clients write it: behind the id are wishes, "ID~2~1024". */
static bool take_build(const char *before, size_t before_len, const char *text, size_t len,
                       struct hop_id *ret)
{
	static const char segment[] = "builds";

	return before_len == strlen(segment) && memcmp(before, segment, before_len) == 0 &&
	       len > ID_RANDOM_LEN && text[ID_RANDOM_LEN] == '~' &&
	       take(text, ID_RANDOM_LEN, "bld", ret);
}

/* Of a snapshot, as Vercel's clients write it. */
static bool take_vercels(const char *text, size_t len, struct hop_id *ret)
{
	return len > strlen(VERCELS) && memcmp(text, VERCELS, strlen(VERCELS)) == 0 &&
	       take(text + strlen(VERCELS), len - strlen(VERCELS), "sn", ret);
}

static const char *kind_behind(const char *segment, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(bare); i++)
		if (strlen(bare[i].segment) == len && memcmp(bare[i].segment, segment, len) == 0)
			return bare[i].kind;
	return NULL;
}

static bool find_in_path(const char *target, struct hop_id *ret)
{
	const char *before = target;
	size_t before_len = 0;

	for (const char *p = target; *p == '/';) {
		size_t len = strcspn(++p, "/?");
		const char *kind = len == ID_RANDOM_LEN ? kind_behind(before, before_len) : NULL;

		if (take(p, len, NULL, ret) || take_vercels(p, len, ret) ||
		    take_build(before, before_len, p, len, ret) ||
		    (kind && take(p, len, kind, ret)))
			return true;
		before = p;
		before_len = len;
		p += len;
	}
	return false;
}

/* "3000-k3v9….preview.example" */
static bool find_in_host(const char *host, const char *domain, struct hop_id *ret)
{
	char name[HTTP_HOST_SIZE];
	const char *id;
	unsigned port;
	size_t len, tail = strlen(domain);

	if (http_host_parse(host, name, &port) < 0)
		return false;
	for (char *p = name; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	len = strlen(name);
	if (len <= tail + 1 || name[len - tail - 1] != '.' ||
	    strcmp(name + len - tail, domain) != 0)
		return false;
	name[len - tail - 1] = '\0';
	id = name + strspn(name, "0123456789");
	ret->is_by_name = id > name && *id == '-' &&
	                  (take(id + 1, strlen(id + 1), NULL, ret) ||
	                   take(id + 1, strlen(id + 1), "sb", ret));
	return ret->is_by_name;
}

bool hop_id_find(const struct hop_asked *asked, struct hop_id *ret)
{
	const char *sandbox = asked->sandbox_field, *session = asked->session_field;

	*ret = (struct hop_id){0};
	if (asked->preview_domain && asked->host &&
	    find_in_host(asked->host, asked->preview_domain, ret))
		return true;
	if (asked->target && find_in_path(asked->target, ret))
		return true;
	if (sandbox && (take(sandbox, strlen(sandbox), NULL, ret) ||
	                take(sandbox, strlen(sandbox), "sb", ret)))
		return true;
	return session && take(session, strlen(session), NULL, ret);
}
