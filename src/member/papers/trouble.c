// SPDX-License-Identifier: Apache-2.0
#include "member/papers/trouble.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STATE_LEN 5

/* clang-format off */
static const struct {
	const char *code;
	enum err_code api;
	const char *hint;
} rows[] = {
	[TROUBLE_NONE]        = {"", ERR_NONE, ""},
	[TROUBLE_NOT_JOINED]  = {"not_joined", ERR_CONFLICT, "join with an invitation: run `cloche cluster invite` on the node that made the cluster, and `cloche node join TOKEN` here"},
	[TROUBLE_STARTING]    = {"starting", ERR_UNAVAILABLE, ""},
	[TROUBLE_SETTING]     = {"setting_invalid", ERR_INVALID_FIELD, "correct `postgres` under [cluster] in the settings file, then: systemctl restart cloche"},
	[TROUBLE_NAME]        = {"database_name_unknown", ERR_UNAVAILABLE, "check the host in `postgres` under [cluster]: getent hosts NAME"},
	[TROUBLE_UNREACHABLE] = {"database_unreachable", ERR_UNAVAILABLE, "check `postgres` under [cluster], the network, and whether PostgreSQL runs: pg_isready -h HOST -p PORT"},
	[TROUBLE_UNTRUSTED]   = {"database_untrusted", ERR_UNAVAILABLE, "name the authority of PostgreSQL's certificate as sslrootcert=FILE in `postgres` under [cluster], and the host as its certificate has it"},
	[TROUBLE_NO_TLS]      = {"database_without_tls", ERR_UNAVAILABLE, "let PostgreSQL speak TLS (ssl = on, ssl_cert_file and ssl_key_file in postgresql.conf); sslmode=disable in `postgres` under [cluster] does without, on a network that you trust"},
	[TROUBLE_REFUSED]     = {"database_refused", ERR_FORBIDDEN, "let this host in by pg_hba.conf (hostssl DATABASE all ADDRESS scram-sha-256); if the password is another now: `cloche node join TOKEN` with a new invitation"},
	[TROUBLE_NO_DATABASE] = {"database_missing", ERR_NOT_FOUND, "correct dbname in `postgres` under [cluster], or create it: createdb cloche"},
	[TROUBLE_STANDBY]     = {"database_read_only", ERR_UNAVAILABLE, "name the primary, too, in `postgres` under [cluster] (host=A,B), or promote a standby"},
	[TROUBLE_NO_SCHEMA]   = {"cluster_missing", ERR_NOT_FOUND, "this database has no cluster: correct `postgres` under [cluster], or make one: cloche cluster init --owner CONNINFO"},
	[TROUBLE_NO_RIGHTS]   = {"rights_missing", ERR_FORBIDDEN, "give them anew: cloche cluster migrate --owner CONNINFO"},
	[TROUBLE_FOREIGN]     = {"cluster_foreign", ERR_CONFLICT, "correct `postgres` under [cluster]; to move this node to the other cluster: cloche node join TOKEN --replace"},
	[TROUBLE_OLD]         = {"member_too_old", ERR_UNSUPPORTED, "upgrade this node: apt install cloche cloche-cluster"},
	[TROUBLE_BEHIND]      = {"schema_too_old", ERR_UNSUPPORTED, "bring it up to date: cloche cluster migrate --owner CONNINFO"},
	[TROUBLE_REMOVED]     = {"node_unknown", ERR_CONFLICT, "let it join anew: `cloche cluster invite` on the node that made the cluster, and `cloche node join TOKEN --replace` here"},
	[TROUBLE_INVITATION_UNKNOWN] = {"invitation_unknown", ERR_NOT_FOUND, "make another: cloche cluster invite"},
	[TROUBLE_INVITATION_USED]    = {"invitation_used", ERR_CONFLICT, "if that was not you, somebody has your token: `cloche node ls` shows who joined. Make another: cloche cluster invite"},
	[TROUBLE_INVITATION_EXPIRED] = {"invitation_expired", ERR_GONE, "make another: cloche cluster invite"},
	[TROUBLE_NO_NODE]     = {"node_missing", ERR_NOT_FOUND, "see their names: cloche node ls"},
	[TROUBLE_IN_USE]      = {"node_in_use", ERR_CONFLICT, "let its sandboxes end first: cloche node cordon NAME --owner CONNINFO; it can be removed at once then, and what runs there is cut off"},
	[TROUBLE_TAKEN]       = {"node_taken", ERR_CONFLICT, "give another one: cloche node join TOKEN --name NAME --address HOST:PORT"},
	[TROUBLE_UNSIGNED]    = {"certificate_missing", ERR_TIMEOUT, "start cloche on the node that made the invitation (`cloche cluster status` there), then say the same `cloche node join TOKEN` again"},
	[TROUBLE_FORGED]      = {"certificate_forged", ERR_CONFLICT, "the database is not to be trusted, or was mixed up with another; check `postgres` under [cluster], and make another invitation: cloche cluster invite"},
	[TROUBLE_ENDING]      = {"certificate_ending", ERR_UNAVAILABLE, "it renews itself while cloche runs on the node that signs: start that one (`cloche cluster status` there); if nothing helps, join anew before it ends: `cloche cluster invite` on the node that signs, and `cloche node join TOKEN --replace` here"},
	[TROUBLE_ENDED]       = {"certificate_ended", ERR_GONE, "join anew: `cloche cluster invite` on the node that signs, and `cloche node join TOKEN --replace` here"},
	[TROUBLE_UNRENEWED]   = {"certificate_not_renewed", ERR_CONFLICT, "see the log of the node that signs: journalctl -u cloche | grep cluster.renewal; if its reason stays, join anew: `cloche cluster invite` on the node that signs, and `cloche node join TOKEN --replace` here"},
	[TROUBLE_SUPERSEDED]  = {"certificate_superseded", ERR_CONFLICT, "somebody has a copy of this node's key and has renewed its certificate, or this node was set back to an older state of its disk. Join anew: `cloche cluster invite` on the node that signs, and `cloche node join TOKEN --replace` here; then remove the old name: cloche node rm NAME --owner CONNINFO"},
	[TROUBLE_SKEW]        = {"clock_skew", ERR_UNAVAILABLE, "set both by one source: timedatectl set-ntp true"},
	[TROUBLE_DATABASE]    = {"database_error", ERR_INTERNAL, "see PostgreSQL's log"},
	[TROUBLE_STORE_SETTING]     = {"objects_setting_invalid", ERR_INVALID_FIELD, "correct `objects` and its kin under [cluster] in the settings file, then: systemctl restart cloche"},
	[TROUBLE_STORE_UNREACHABLE] = {"objects_unreachable", ERR_UNAVAILABLE, "check `objects_endpoint` under [cluster], the network, and the store's own state: curl -sS -o /dev/null -w '%{http_code}' ENDPOINT"},
	[TROUBLE_STORE_UNTRUSTED]   = {"objects_untrusted", ERR_UNAVAILABLE, "name the authority of the store's certificate as `objects_ca` under [cluster], and the host as its certificate has it"},
	[TROUBLE_STORE_MISSING]     = {"objects_missing", ERR_NOT_FOUND, "correct `objects` under [cluster], or make it: aws s3 mb s3://BUCKET, or mount the directory: mount PATH"},
	[TROUBLE_STORE_KEYS]        = {"objects_keys_refused", ERR_FORBIDDEN, "put keys that the store knows into the file of `objects_credentials`, then: systemctl restart cloche; with some stores a wrong `objects_region` looks the same"},
	[TROUBLE_STORE_RIGHTS]      = {"objects_rights_missing", ERR_FORBIDDEN, "allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket there; of a directory: chown cloche-cluster PATH, with one number for this user on all nodes"},
	[TROUBLE_STORE_REGION]      = {"objects_region_wrong", ERR_CONFLICT, "set the bucket's own region as `objects_region` under [cluster]: aws s3api get-bucket-location --bucket BUCKET"},
	[TROUBLE_STORE_CLOCK]       = {"objects_clock_wrong", ERR_CONFLICT, "set this node's clock: timedatectl set-ntp true"},
	[TROUBLE_STORE_FULL]        = {"objects_full", ERR_CAPACITY, "make room there: df -h PATH, or the quota of the bucket"},
	[TROUBLE_STORE_DAMAGED]     = {"objects_damaged", ERR_CONFLICT, "restore the bucket or directory from its copy, or make the template or snapshot anew; see who writes there besides this cluster"},
	[TROUBLE_STORE_NONE]        = {"objects_none", ERR_CONFLICT, "name a bucket or a directory that all nodes see as `objects` under [cluster] in the settings file of each node, then: systemctl restart cloche"},
	[TROUBLE_STORE_KEYLESS]     = {"objects_keys_missing", ERR_CONFLICT, "on the node that made the cluster: cloche cluster migrate --owner CONNINFO; then copy DATA/cluster/objects.keys from there to here, as root, and: systemctl restart cloche"},
	[TROUBLE_STORE_HELD]        = {"objects_held", ERR_CONFLICT, "look whether templates and snapshots are missing that should be there (then restore the database's backup); if all is right, set `objects_collect_most = 100` under [cluster] on this node until it is done, with: systemctl restart cloche"},
	[TROUBLE_STORE_ABSENT]      = {"object_missing", ERR_NOT_FOUND, "it was removed, or lies in another bucket: compare `objects` under [cluster] on all nodes"},
};
static const struct {
	const char *state; /* or its beginning: a class */
	enum trouble trouble;
} by_state[] = {
	{"28", TROUBLE_REFUSED}, {"3D000", TROUBLE_NO_DATABASE}, {"3F000", TROUBLE_NO_SCHEMA}, {"42P01", TROUBLE_NO_SCHEMA}, {"42883", TROUBLE_BEHIND},
	{"42501", TROUBLE_NO_RIGHTS}, {"25006", TROUBLE_STANDBY}, {"CL001", TROUBLE_REMOVED}, {"CL004", TROUBLE_INVITATION_UNKNOWN},
	{"CL005", TROUBLE_INVITATION_USED}, {"CL006", TROUBLE_INVITATION_EXPIRED}, {"23505", TROUBLE_TAKEN}, {"CL007", TROUBLE_NO_NODE}, {"CL008", TROUBLE_IN_USE}, {"57P", TROUBLE_UNREACHABLE},
	{"08", TROUBLE_UNREACHABLE}, {"53", TROUBLE_UNREACHABLE},
};
/* libpq's own sentences, which have no state. */
static const struct {
	const char *words;
	enum trouble trouble;
} by_words[] = {
	{"certificate", TROUBLE_UNTRUSTED}, {"does not support SSL", TROUBLE_NO_TLS}, {"SSL error", TROUBLE_UNTRUSTED}, {"session is read-only", TROUBLE_STANDBY},
};
/* clang-format on */
static_assert(ARRAY_SIZE(rows) == TROUBLE_COUNT, "a trouble has no row");

const char *trouble_code(enum trouble t)
{
	return rows[t].code;
}

const char *trouble_hint(enum trouble t)
{
	return rows[t].hint;
}

enum trouble trouble_of_state(const char *state)
{
	for (size_t i = 0; state && i < ARRAY_SIZE(by_state); i++)
		if (strncmp(state, by_state[i].state, strlen(by_state[i].state)) == 0)
			return by_state[i].trouble;
	return TROUBLE_DATABASE;
}

/* Where "FATAL:  28P01: " has the state, whatever language the server speaks; or NULL. */
static const char *find_state(const char *message)
{
	for (const char *p = strstr(message, ":  "); p; p = strstr(p + 1, ":  ")) {
		const char *state = p + strlen(":  ");
		size_t n = 0;

		while (isdigit((unsigned char)state[n]) || isupper((unsigned char)state[n]))
			n++;
		if (n == STATE_LEN && state[n] == ':')
			return state;
	}
	return NULL;
}

enum trouble trouble_of_connection(const char *message)
{
	const char *state = find_state(message);

	if (state)
		return trouble_of_state(state);
	for (size_t i = 0; i < ARRAY_SIZE(by_words); i++)
		if (strstr(message, by_words[i].words))
			return by_words[i].trouble;
	return TROUBLE_UNREACHABLE;
}

char *trouble_line(const char *message)
{
	char *line = xstrndup(message, strcspn(message, "\n"));
	const char *state = find_state(line);

	if (state) {
		const char *rest = state + STATE_LEN + strlen(":");
		char *to = line + (state - line);

		rest += strspn(rest, " ");
		memmove(to, rest, strlen(rest) + 1);
	}
	return line;
}

int trouble_set(struct err *err, enum trouble t, const char *fmt, ...)
{
	char message[sizeof(err->message)];
	va_list args;
	int r;

	va_start(args, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	r = err_set(err, rows[t].api, 0, "%s", message);
	(void)snprintf(err->field, sizeof(err->field), "%s", rows[t].code);
	if (rows[t].hint[0])
		(void)err_hint(err, "%s", rows[t].hint);
	return r;
}
